package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
)

// A Scope says what a token allows.
type Scope string

// The scopes.
const (
	ScopeAdmin   Scope = "admin"   // everything
	ScopeWrite   Scope = "write"   // to read bases and to change their documents
	ScopeRead    Scope = "read"    // to read bases
	ScopeMetrics Scope = "metrics" // to scrape

	scopeReadToken Scope = "read_token" // everything that changes nothing
)

// meets reports whether a token of this scope allows what needs n.
func (s Scope) meets(n need) bool {
	switch s {
	case ScopeAdmin:
		return true
	case ScopeWrite:
		return n == needRead || n == needWrite
	case ScopeRead:
		return n == needRead
	case ScopeMetrics:
		return n == needMetrics
	case scopeReadToken:
		return !n.changes()
	}
	return false
}

// A Token is a bearer token of the admin port.
type Token struct {
	Name      string
	SHA256    [sha256.Size]byte
	Scope     Scope
	Knowledge []string  // the bases it is for, with ScopeRead and ScopeWrite; empty for all
	Expires   time.Time // from then on it is refused; zero for never
}

// expired reports whether a token is no longer valid.
func (t *Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// MayInspect reports whether the token allows reading everything.
func (t *Token) MayInspect() bool { return t.Scope.meets(needInspect) }

// MayChange reports whether the token allows every change.
func (t *Token) MayChange() bool { return t.Scope == ScopeAdmin }

// sees reports whether the token allows seeing a base.
func (t *Token) sees(base string) bool {
	return len(t.Knowledge) == 0 || slices.Contains(t.Knowledge, base)
}

// visible returns those of the bases that the token allows seeing.
func (t *Token) visible(bases []string) []string {
	if len(t.Knowledge) == 0 {
		return bases
	}
	return slices.DeleteFunc(slices.Clone(bases), func(id string) bool { return !t.sees(id) })
}

// Names of the tokens that have none of their own. No configured name has a dot.
const (
	nameToken      = "admin.token"
	nameReadToken  = "admin.read_token"
	nameStateToken = "state.admin-token"
)

// tokens returns all tokens, expired ones too.
func (h *Handler) tokens() []Token {
	all := slices.Clone(h.Tokens)
	add := func(name string, secret proxy.Secret, scope Scope) {
		if text := secret.Reveal(); text != "" {
			all = append(all, Token{Name: name, SHA256: sha256.Sum256([]byte(text)), Scope: scope})
		}
	}
	add(nameToken, h.Token, ScopeAdmin)
	add(nameReadToken, h.ReadToken, scopeReadToken)
	if !h.hasAdmin() {
		secret, _ := h.stateToken() // without one nobody may write, and admitChange says why
		add(nameStateToken, proxy.NewSecret(secret), ScopeAdmin)
	}
	return all
}

// valid returns the tokens that are not expired.
func (h *Handler) valid() []Token {
	now := time.Now()
	return slices.DeleteFunc(h.tokens(), func(t Token) bool { return t.expired(now) })
}

// hasAdmin reports whether a token for everything is configured, so that the one of the state folder
// is not accepted.
func (h *Handler) hasAdmin() bool {
	return h.Token.Reveal() != "" || slices.ContainsFunc(h.Tokens, func(t Token) bool { return t.MayChange() })
}

// open reports whether reads need no token.
func (h *Handler) open() bool {
	return len(h.Tokens) == 0 && h.Token.Reveal()+h.ReadToken.Reveal() == ""
}

// stateToken returns the token of the state folder, or why there is none.
func (h *Handler) stateToken() (string, error) {
	if h.StateToken == nil {
		return "", errors.New("there is no state folder")
	}
	return h.StateToken()
}

// A caller is who sends a request. Without a valid token it has no scope.
type caller struct {
	Token
	sent bool // it sent a token, which may be wrong
	late bool // the token has expired
}

// callerOf returns the caller of a request. Digests are compared, all of them, so that the time
// reveals nothing about a token, not even its length.
func (h *Handler) callerOf(ctx *fasthttp.RequestCtx) (c caller) {
	const scheme = "bearer "
	got := ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)
	if len(got) < len(scheme) || !bytes.EqualFold(got[:len(scheme)], []byte(scheme)) {
		return c
	}
	c.sent = true
	sum := sha256.Sum256(bytes.TrimSpace(got[len(scheme):]))
	for _, t := range h.tokens() {
		if subtle.ConstantTimeCompare(t.SHA256[:], sum[:]) == 1 {
			c.Token = t
		}
	}
	if c.expired(time.Now()) {
		c.late, c.Scope = true, ""
	}
	return c
}
