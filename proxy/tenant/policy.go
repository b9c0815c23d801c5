package tenant

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// A Policy holds the settings for one tenant's requests. It is looked up once per request and
// passed down.
type Policy struct {
	Name            string   // in the configuration
	Hash            string   // of the resolved settings, 8 hex digits, for the log
	Tenant          string   // [a-z0-9_-]{1,64}
	Upstream        string   // name of the upstream
	Routes          []string // such as "/chat/completions"; the only routes relayed with an upstream key of Sidenote or with Models
	Models          Models   // that requests may name; nil allows all
	Expose          report.Expose
	Overrides       []Override   // the first that fits a chat replaces this policy
	MaxRewriteBytes int          // larger bodies are not rewritten
	Metered         bool         // usage is settled: answers are capped, and streams are asked to report usage
	OutputCap       int          // most output tokens for one answer of a metered request; 0: the model's limit
	RetryTooLong    bool         // if the upstream finds a request too long, retry once with fewer sources
	Budget          budget.Terms // the tenant's limits
	Rewrite         rewrite.Policy
	Tools           tools.Policy  `json:",omitzero"` // zero unless the mode is tools or above; a request or the kill switch may lower the mode
	Citations       answer.Policy `json:",omitzero"` // how citations in answers are handled
	Stages          staged.Policy `json:",omitzero"` // zero unless the mode is staged; the mode may be lowered as for Tools
}

// Limited returns p with its mode lowered as the kill switch demands at now, and the original
// mode; p itself and "" if nothing lowers it.
func (p *Policy) Limited(by *Switch, now time.Time) (limited *Policy, from string) {
	limit, ok := by.Limit(p.Tenant, now)
	if !ok || p.Rewrite.Mode <= limit {
		return p, ""
	}
	lowered := *p
	lowered.Rewrite.Mode = limit
	return &lowered, p.Rewrite.Mode.String()
}

// OffReason returns the reason why a chat of this policy is relayed unchanged. from is the result
// of Limited.
func (p *Policy) OffReason(from string) rewrite.Reason {
	if from != "" && p.Rewrite.Mode == rewrite.Off {
		return rewrite.ReasonSwitchedOff
	}
	return rewrite.ReasonOff
}

// WithoutClaims returns an error if the tenant's filter depends on claims of the caller's token: a
// caller without such a token would see nothing, or too much.
func (p *Policy) WithoutClaims() error {
	for claim := range p.Rewrite.Filter.Claims {
		return &APIError{Reason: rewrite.ReasonOption, Param: "tenant", Message: fmt.Sprintf(
			"What tenant %q may see depends on the claim %q of its callers' tokens, which this port does not know.", p.Tenant, string(claim))}
	}
	return nil
}

// KeyPrefix begins the keys that Sidenote makes for tenants. Scanners for leaked secrets find keys
// by it, and package transport keeps such keys from upstreams.
const KeyPrefix = "sk-sidenote-"

// A Key is a tenant's API key, known only by its SHA-256.
type Key struct {
	SHA256    [sha256.Size]byte
	Name      string    // for the log and lists; "" if it has none
	NotBefore time.Time // zero: valid at once
	Expires   time.Time // zero: never
	Policy    *Policy
}

// denial returns why the key is not valid at now; "" if it is.
func (k *Key) denial(now time.Time) TokenDenial {
	switch {
	case now.Before(k.NotBefore):
		return deniedEarly
	case !k.Expires.IsZero() && now.After(k.Expires):
		return deniedExpired
	}
	return ""
}

// Tenants says who may call. NewDirectory indexes it.
type Tenants struct {
	Keys    []Key
	Uses    *KeyUses // when keys were last used; nil: a new one for each Directory
	Unknown *Policy  // for callers that cannot be identified; nil refuses them

	Issuers []Issuer       // of tokens
	Rules   []ClaimRule    // which tokens belong to which tenant
	Trusted []netip.Prefix // addresses of peers that may name a tenant in Sidenote-Tenant
	// Certificates are the names in verified certificates of such peers.
	Certificates []string
	Named        []*Policy // tenants that tokens, the header or a listener may name

	Proxies []netip.Prefix // proxies whose X-Forwarded-For is believed, for client addresses in the log

	// Origins and Hosts apply to callers without a key or token. They are the web pages besides
	// those of this machine that may send requests, and the names besides its own by which
	// Sidenote may be called on this machine. See OriginRules.
	Origins, Hosts []string
}
