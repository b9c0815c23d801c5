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

// A Policy holds the settings for one tenant's requests. It is a value, found once per
// request and passed down.
type Policy struct {
	Name            string   // in the configuration
	Hash            string   // of the resolved content, 8 hex digits, for the log
	Tenant          string   // [a-z0-9_-]{1,64}
	Upstream        string   // name of the upstream
	Routes          []string // such as "/chat/completions"; with Sidenote's own upstream key, or with Models, only these are relayed
	Models          Models   // that requests may name; nil: all
	Expose          report.Expose
	Overrides       []Override   // the first one that fits a chat takes the place of this policy
	MaxRewriteBytes int          // a larger body is not rewritten
	Metered         bool         // what answers use is settled: their length is capped, and streams are asked to tell it
	OutputCap       int          // tokens of one answer of a metered request at most; 0: what its model can write
	RetryTooLong    bool         // send a request that the upstream finds too long once more, with fewer sources
	Budget          budget.Terms // what the tenant may use
	Rewrite         rewrite.Policy
	Tools           tools.Policy  `json:",omitzero"` // zero unless the mode is tools or above; a request or the kill switch may lower the mode
	Citations       answer.Policy `json:",omitzero"` // what becomes of them in answers
	Stages          staged.Policy `json:",omitzero"` // zero unless the mode is staged; likewise
}

// Limited returns p with the mode that the kill switch leaves it at a time, and the mode
// that it had; p itself and "" if nothing lowers it.
func (p *Policy) Limited(by *Switch, now time.Time) (limited *Policy, from string) {
	limit, ok := by.Limit(p.Tenant, now)
	if !ok || p.Rewrite.Mode <= limit {
		return p, ""
	}
	lowered := *p
	lowered.Rewrite.Mode = limit
	return &lowered, p.Rewrite.Mode.String()
}

// OffReason says why a chat of this policy is relayed, whose mode Limited has lowered from
// another one or not ("").
func (p *Policy) OffReason(from string) rewrite.Reason {
	if from != "" && p.Rewrite.Mode == rewrite.Off {
		return rewrite.ReasonSwitchedOff
	}
	return rewrite.ReasonOff
}

// WithoutClaims returns an error if what the tenant's callers may see depends on claims of their
// tokens: whoever asks in its name without such a token would see nothing, or too much.
func (p *Policy) WithoutClaims() error {
	for claim := range p.Rewrite.Filter.Claims {
		return &APIError{Reason: rewrite.ReasonOption, Param: "tenant", Message: fmt.Sprintf(
			"What tenant %q may see depends on the claim %q of its callers' tokens, which this port does not know.", p.Tenant, string(claim))}
	}
	return nil
}

// KeyPrefix begins the keys that Sidenote makes for tenants. Scanners for leaked
// secrets find keys by it, and transport keeps such keys from upstreams.
const KeyPrefix = "sk-sidenote-"

// A Key is a tenant's API key, of which only the SHA-256 is known.
type Key struct {
	SHA256    [sha256.Size]byte
	Name      string    // for the log and lists; "" if it has none
	NotBefore time.Time // zero: valid at once
	Expires   time.Time // zero: never
	Policy    *Policy
}

// denial says why the key may not be used at a time; "" if it may.
func (k *Key) denial(now time.Time) TokenDenial {
	switch {
	case now.Before(k.NotBefore):
		return deniedEarly
	case !k.Expires.IsZero() && now.After(k.Expires):
		return deniedExpired
	}
	return ""
}

// Tenants says who may call. NewDirectory makes it ready for look-ups.
type Tenants struct {
	Keys    []Key
	Uses    *KeyUses // remembers when keys were used; nil: each Directory remembers for itself
	Unknown *Policy  // for callers that nothing names; nil refuses them

	Issuers []Issuer       // of tokens
	Rules   []ClaimRule    // which tokens name which tenant
	Trusted []netip.Prefix // addresses of peers whose header Sidenote-Tenant is believed
	// Certificates are names in verified certificates of such peers.
	Certificates []string
	Named        []*Policy // of tenants that tokens, the header or a listener may name

	Proxies []netip.Prefix // whose X-Forwarded-For tells the addresses of clients, for the log

	// Callers without a key or token may be programs, or web pages of this machine and of
	// Origins. If they call Sidenote on this machine, they may call it by its own names
	// and by Hosts. See OriginRules.
	Origins, Hosts []string
}
