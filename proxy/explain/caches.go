package explain

import (
	"fmt"

	"sidenote/retrieval"
)

// A CacheUse is the result of a cache lookup for a request. Caches that were not asked have no
// entry.
type CacheUse struct {
	Cache string               `json:"cache"`           // "fit" for the fitting of sources into the budget, else a kind of package cache
	Of    string               `json:"of,omitempty"`    // base, stage, or what the scores are for
	More  int                  `json:"more,omitempty"`  // further bases searched together with Of
	Query int                  `json:"query,omitempty"` // of the plan, from 1; absent for the question itself
	State retrieval.CacheState `json:"state"`           // hit or miss
	Key   string               `json:"key,omitempty"`   // prefix of the digest of its key
}

// maxLookups limits the searches kept.
const maxLookups = 32

// caches returns the cache lookups in the order of the request.
func (r *entry) caches() (list []CacheUse) {
	res := &r.Rewrite
	found, l := &res.Retrieval, &res.Ledger
	if p := l.Planned; p != nil && p.Fallback != retrieval.PlanDisabled {
		list = append(list, CacheUse{Cache: "plans", State: state(p.Cached)})
	}
	if found.CacheKey != 0 {
		list = append(list, CacheUse{Cache: "selected", State: found.Cache, Key: digits(found.CacheKey)})
	}
	for _, a := range found.Lookups {
		list = append(list, CacheUse{"candidates", a.Knowledge, a.Others, a.Query, a.State, digits(a.Key)})
	}
	if by := l.Reranked; by != nil && by.Documents > 0 {
		list = append(list, CacheUse{Cache: "scores", Of: "rerank", State: state(by.Cached)})
	}
	if by := l.Graded; by != nil && by.Documents > 0 {
		list = append(list, CacheUse{Cache: "scores", Of: "grade", State: state(by.Cached)})
	}
	if res.FitCached {
		list = append(list, CacheUse{Cache: "fit", State: retrieval.CacheHit})
	}
	if r.Tools != nil && r.Tools.Restored > 0 {
		list = append(list, CacheUse{Cache: "turns", State: retrieval.CacheHit})
	}
	if r.Stages == nil {
		return list
	}
	for i := range r.Stages.Called {
		if s := &r.Stages.Called[i]; s.Calls == 0 && !s.Outcome.Failed() {
			list = append(list, CacheUse{Cache: "outputs", Of: s.Name, State: retrieval.CacheHit})
		}
	}
	return list
}

func state(hit bool) retrieval.CacheState {
	if hit {
		return retrieval.CacheHit
	}
	return retrieval.CacheMiss
}

func digits(key uint32) string { return fmt.Sprintf("%08x", key) }
