package proxy

import (
	"net/url"

	"sidenote/proxy/transport"
)

// A Secret is text that is never printed: logs, errors and dumps show "***". The text is behind a
// pointer because fmt does not call String on a Secret in an unexported field and would print the
// text itself.
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

// An UpstreamBase is another base URL of an Upstream.
type UpstreamBase struct {
	BaseURL *url.URL
	Dial    transport.OutboundOptions
}

// Equal reports whether b and c describe the same base URL.
func (b UpstreamBase) Equal(c UpstreamBase) bool {
	return *b.BaseURL == *c.BaseURL && b.Dial.Equal(c.Dial)
}

// An Upstream is an API of OpenAI's or Anthropic's style that requests are relayed to.
type Upstream struct {
	Name    string
	BaseURL *url.URL // its path is prepended to the request's
	APIKey  Secret   // Sidenote's own key; "" relays the client's
	// KeyHeader is the header with APIKey: "authorization", as a bearer token, "api-key" or
	// "x-api-key". "" is the one that the vendor at BaseURL takes.
	KeyHeader string
	Dial      transport.OutboundOptions
	// Others are tried in order if no connection to BaseURL can be made.
	Others []UpstreamBase
	// Timeouts replaces Connect, FirstByte and Idle of the Server's where they are not 0.
	Timeouts Timeouts
	// NoUsageOption reports that the upstream rejects stream_options, so that metered streams do
	// not request their usage.
	NoUsageOption bool
}
