package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sidenote/proxy/report"
)

// maxPrompts limits the PromptUses of a slot; the prompts of further ones are not counted.
const maxPrompts = 100

// A PromptUse says how the caches of upstreams treated the prompts of a tenant, policy and model,
// and what the tokens that Sidenote added to them cost. The latter is an estimate; see
// report.ContextUsage. Shares are from 0 to 1.
type PromptUse struct {
	Tenant   string `json:"tenant"`
	Policy   string `json:"policy"`
	Model    string `json:"model"`    // row of the model table
	Requests int    `json:"requests"` // chats whose answers reported usage

	Input       int64   `json:"input_tokens"`
	CachedInput int64   `json:"cached_input_tokens"`          // of Input: read from the cache
	CacheWrite  int64   `json:"cache_write_tokens,omitempty"` // of Input: written into it
	CachedShare float64 `json:"cached_share"`                 // of Input

	Context            int64   `json:"context_tokens"` // of Input: added by Sidenote
	ContextCached      int64   `json:"context_cached_tokens"`
	ContextCacheWrite  int64   `json:"context_cache_write_tokens,omitempty"`
	ContextCachedShare float64 `json:"context_cached_share"` // of Context
	ContextUSD         float64 `json:"context_usd"`
	Priced             int     `json:"priced_requests"` // those with context whose cost is in ContextUSD
}

func (u *PromptUse) same(r *report.Report) bool {
	return u.Tenant == r.Tenant && u.Policy == r.Policy && u.Model == r.Model()
}

func (u *PromptUse) count(r *report.Report) {
	c := &r.Context
	u.Requests++
	u.Input, u.CachedInput, u.CacheWrite = u.Input+r.Usage.Input, u.CachedInput+r.Usage.CachedInput, u.CacheWrite+r.Usage.CacheWrite
	u.Context, u.ContextCached, u.ContextCacheWrite = u.Context+c.Input, u.ContextCached+c.CachedInput, u.ContextCacheWrite+c.CacheWrite
	if c.Priced {
		u.ContextUSD += float64(c.Cost) / 1e12
		u.Priced++
	}
}

func (u *PromptUse) add(other *PromptUse) {
	u.Requests, u.Priced = u.Requests+other.Requests, u.Priced+other.Priced
	u.Input, u.CachedInput, u.CacheWrite = u.Input+other.Input, u.CachedInput+other.CachedInput, u.CacheWrite+other.CacheWrite
	u.Context, u.ContextCached, u.ContextCacheWrite = u.Context+other.Context, u.ContextCached+other.ContextCached, u.ContextCacheWrite+other.ContextCacheWrite
	u.ContextUSD += other.ContextUSD
}

// share sets the shares.
func (u *PromptUse) share() {
	if u.Input > 0 {
		u.CachedShare = float64(u.CachedInput) / float64(u.Input)
	}
	if u.Context > 0 {
		u.ContextCachedShare = float64(u.ContextCached) / float64(u.Context)
	}
}

// A promptSlot counts the prompts of slotMinutes.
type promptSlot struct {
	at   int64 // minutes since 1970, divided by slotMinutes
	uses []PromptUse
}

// count adds a chat that ended in the slot at.
func (p *promptSlot) count(r *report.Report, at int64) {
	if r.Usage.Input == 0 || p.at > at {
		return
	}
	if p.at < at {
		p.at, p.uses = at, p.uses[:0]
	}
	for i := range p.uses {
		if p.uses[i].same(r) {
			p.uses[i].count(r)
			return
		}
	}
	if len(p.uses) < maxPrompts {
		u := PromptUse{Tenant: strings.Clone(clip(r.Tenant)), Policy: r.Policy, Model: strings.Clone(clip(r.Model()))}
		u.count(r)
		p.uses = append(p.uses, u)
	}
}

// PromptUses returns the use of prompt caches in the last 50 to 60 minutes, by tenant, policy and
// model, most prompt tokens first.
func (o *Recorder) PromptUses(now time.Time) []PromptUse {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := []PromptUse{}
	last := now.Unix() / 60 / slotMinutes
	for i := range o.prompts {
		p := &o.prompts[i]
		if p.at <= last-slots || p.at > last {
			continue
		}
		for k := range p.uses {
			u := &p.uses[k]
			at := slices.IndexFunc(all, func(e PromptUse) bool { return e.Tenant == u.Tenant && e.Policy == u.Policy && e.Model == u.Model })
			if at < 0 {
				all = append(all, *u)
			} else {
				all[at].add(u)
			}
		}
	}
	for i := range all {
		all[i].share()
	}
	slices.SortFunc(all, func(a, b PromptUse) int {
		return cmp.Or(cmp.Compare(b.Input, a.Input), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Model, b.Model))
	})
	return all
}
