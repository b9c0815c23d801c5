package tenant

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/experiment"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/staged"
)

// A Policy holds the settings for one tenant's requests. It is looked up once per request and
// passed down.
type Policy struct {
	Name             string   // in the configuration
	Hash             string   // of the resolved settings, 8 hex digits, for the log
	Tenant           string   // [a-z0-9_-]{1,64}
	Upstream         string   // name of the upstream
	Routes           []string // such as "/chat/completions"; the only routes relayed with an upstream key of Sidenote or with Models
	Models           Models   // that requests may name; nil allows all
	Expose           report.Expose
	Overrides        []Override   // the first that fits a chat replaces this policy
	MaxRewriteBytes  int          // larger bodies are not rewritten
	Metered          bool         // usage is settled: answers are capped, and streams are asked to report usage
	OutputCap        int          // most output tokens for one answer of a metered request; 0: the model's limit
	RetryTooLong     bool         // if the upstream finds a request too long, retry once with fewer sources
	CacheGuard       CacheGuard   `json:",omitempty"` // what happens if sources break the upstream's prompt cache
	Budget           budget.Terms // the tenant's limits
	CacheDiagnostics float64      `json:",omitempty"` // share of the conversations for which the upstream is asked why its prompt cache missed
	Rewrite          rewrite.Policy
	Tools            tools.Policy  `json:",omitzero"` // zero unless the mode is tools or above; a request or the kill switch may lower the mode
	Citations        answer.Policy `json:",omitzero"` // how citations in answers are handled
	Stages           staged.Policy `json:",omitzero"` // zero unless the mode is staged; the mode may be lowered as for Tools
	Experiment       *Experiment   `json:"-"`         // nil: none. Overrides have their own, with the same Settings
}

// An Experiment gives a share of a policy's requests another policy.
type Experiment struct {
	experiment.Settings
	B *Policy // of the same tenant, with the same budget, filter, upstream, models and routes; its Overrides do not apply
}

// CacheGuard says what happens if sources are found to break the prompt cache of an upstream.
type CacheGuard string

// The choices.
const (
	GuardWarn   CacheGuard = ""       // log a warning
	GuardSwitch CacheGuard = "switch" // also change the placement until the next reload
	GuardOff    CacheGuard = "off"    // do not look
)

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

// An Override is the policy for some chats of a tenant, by model and path.
type Override struct {
	Models Models   // the request names one of them; nil for any
	Routes []string // suffixes of paths, such as "/chat/completions"; nil for any path
	Policy *Policy  // complete; of the same tenant and upstream, without Overrides of its own
}

// fits reports whether the override applies to requests to path that name model.
func (o *Override) fits(path, model string) bool {
	return o.Models.Allows(model) && (o.Routes == nil ||
		slices.ContainsFunc(o.Routes, func(route string) bool { return strings.HasSuffix(path, route) }))
}

// All yields the policy itself, those of its overrides, and those of their experiments.
func (p *Policy) All(yield func(*Policy) bool) {
	for one := range p.own {
		if !yield(one) || one.Experiment != nil && !yield(one.Experiment.B) {
			return
		}
	}
}

// own yields the policy itself and those of its overrides.
func (p *Policy) own(yield func(*Policy) bool) {
	if !yield(p) {
		return
	}
	for i := range p.Overrides {
		if !yield(p.Overrides[i].Policy) {
			return
		}
	}
}

// Strict reports whether the policy or one of its overrides is strict: for a body that cannot be
// read it is unknown which of them applies.
func (p *Policy) Strict() bool {
	for one := range p.own { // experiments do not apply to such a body
		if one.Metered || one.Rewrite.Strict() {
			return true
		}
	}
	return false
}

// ForChat returns the policy for a chat that rewrite.Parse accepted: that of the first override
// that fits its path (as in route.Target) and its model, or p. If the model is ambiguous and
// different overrides fit its readings, it returns an error.
func (p *Policy) ForChat(path string, req *chat.Request) (*Policy, error) {
	if len(p.Overrides) == 0 {
		return p, nil
	}
	names, err := req.Models()
	if err != nil {
		return nil, err
	}
	names = append(names, route.Target{Path: path}.PathModels()...)
	if len(names) == 0 {
		names = []string{""}
	}
	chosen := p.override(path, names[0])
	for _, name := range names[1:] {
		if p.override(path, name) != chosen {
			return nil, &APIError{Reason: rewrite.ReasonAmbiguous, Param: "model", Message: fmt.Sprintf(
				"The request names the models %q and %q, to which different rules apply; name one.", Shortened(names[0]), Shortened(name))}
		}
	}
	return chosen, nil
}

func (p *Policy) override(path, model string) *Policy {
	for i := range p.Overrides {
		if o := &p.Overrides[i]; o.fits(path, model) {
			return o.Policy
		}
	}
	return p
}

// Models lists the models that requests may name, by exact name or by a prefix that ends in '*'.
// Letter case matters. A nil list allows every model, an empty one none.
type Models []string

// Allows reports whether the list allows a model.
func (m Models) Allows(name string) bool {
	if m == nil {
		return true
	}
	for _, pattern := range m {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || name == pattern {
			return true
		}
	}
	return false
}

// Allow returns an *APIError for the first name that the list does not allow. It is OpenAI's error
// for a model that does not exist.
func (m Models) Allow(names ...string) error {
	for _, name := range names {
		if !m.Allows(name) {
			return modelError("The model `%s` does not exist or you do not have access to it.", Shortened(name))
		}
	}
	return nil
}

// maxShownModel limits the bytes of a model's name in an error.
const maxShownModel = 128

// Shortened returns a model's name cut to the length for error messages.
func Shortened(name string) string {
	if len(name) <= maxShownModel {
		return name
	}
	return strings.ToValidUTF8(name[:maxShownModel], "") + "…"
}

func modelError(format string, args ...any) *APIError {
	return &APIError{Reason: report.ReasonModel, Message: fmt.Sprintf(format, args...)}
}

// ReadsBodies reports whether a request with an unreadable body is refused rather than relayed.
func (p *Policy) ReadsBodies() bool { return p.Models != nil || p.Strict() }
