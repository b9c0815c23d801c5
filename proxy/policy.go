package proxy

import (
	"crypto/sha256"
	"net/url"
	"time"

	"sidenote/rewrite"
)

// Expose says how much of the sources the response headers tell.
type Expose string

// The levels of Sidenote-Sources.
const (
	ExposeNone  Expose = "none"
	ExposeIDs   Expose = "ids"
	ExposeNames Expose = "names"
)

// A Policy is what one tenant's requests get: a value, resolved once per
// request and passed down.
type Policy struct {
	Name            string   // in the configuration
	Hash            string   // of the resolved content, 8 hex digits, for the log
	Tenant          string   // [a-z0-9_-]{1,64}
	Upstream        string   // name of the upstream
	Routes          []string // with Sidenote's own upstream key: the only routes relayed, "/chat/completions"
	Expose          Expose
	MaxRewriteBytes int  // bytes of a body that is rewritten at most
	RetryTooLong    bool // send again, with fewer sources, what the upstream finds too long
	Rewrite         rewrite.Policy
}

// A Secret is text that never prints: logs, errors and dumps show "***". The
// text stands behind a pointer because fmt does not ask unexported fields of
// others how they want to be printed.
type Secret struct{ text *string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. Call it only where the secret is sent or compared.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "***", or "" when there is no secret.
func (s Secret) String() string {
	if s.Reveal() == "" {
		return ""
	}
	return "***"
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String, for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// An Upstream is an OpenAI-style API that requests are relayed to.
type Upstream struct {
	Name    string
	BaseURL *url.URL // its path is put before the request's
	APIKey  Secret   // Sidenote's own; "" relays the client's
}

// KeyPrefix marks the keys that Sidenote makes for tenants. Scanners for leaked
// secrets find them by it, and no upstream is sent one.
const KeyPrefix = "sk-sidenote-"

// A Key is a tenant's API key, known by its SHA-256 only.
type Key struct {
	SHA256  [sha256.Size]byte
	Expires time.Time // zero: never
	Policy  *Policy
}

// Tenants says who may call. NewDirectory makes it ready for look-ups.
type Tenants struct {
	Keys    []Key
	Unknown *Policy // for callers that no key names; nil refuses them

	// Those callers may come from programs, and from web pages of these origins and
	// of this machine; and may call Sidenote on this machine by these names beside
	// its own. ValidOrigin and ValidHost tell what may stand here.
	Origins, Hosts []string
}
