package inspector

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// Sessions creates and verifies sessions. A session is its expiry time and an HMAC of it and a
// token's digest, so that nothing is stored: it also ends when the token changes, and with the
// process, as the key is random. A session does not reveal the token.
type Sessions struct{ key [sha256.Size]byte }

// NewSessions returns Sessions with a random key.
func NewSessions() *Sessions {
	s := new(Sessions)
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

const (
	cookieName    = "sidenote_session"
	sessionLasts  = 12 * time.Hour
	maxSessions   = 10 // session cookies checked per request
	maxSignInForm = 16 << 10
	formWait      = 10 * time.Second
)

// Begin returns a session for a token that lasts until end.
func (s *Sessions) Begin(t Token, end time.Time) string {
	at := strconv.FormatInt(end.Unix(), 10)
	return at + "." + s.sum(t, at)
}

func (s *Sessions) sum(t Token, at string) string {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(t[:])
	mac.Write([]byte(at))
	return hex.EncodeToString(mac.Sum(nil))
}

// Valid reports whether a session belongs to one of these tokens and has not expired.
func (s *Sessions) Valid(session string, tokens []Token) bool {
	at, sum, _ := strings.Cut(session, ".")
	end, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Now().Unix() >= end {
		return false
	}
	for _, t := range tokens {
		if hmac.Equal([]byte(sum), []byte(s.sum(t, at))) {
			return true
		}
	}
	return false
}

// tokenOf returns the one of these tokens that the session of a request belongs to, or nil. Servers
// on other ports may set cookies with the same name, which can come first. Of several sessions, one
// whose token allows changes counts.
func (s *Sessions) tokenOf(ctx *fasthttp.RequestCtx, tokens []admin.Token) (found *admin.Token) {
	tried := 0
	for name, value := range ctx.Request.Header.Cookies() {
		if string(name) != cookieName || tried == maxSessions {
			continue
		}
		tried++
		for i := range tokens {
			if s.Valid(string(value), []Token{tokens[i].SHA256}) && (found == nil || tokens[i].MayChange()) {
				found = &tokens[i]
			}
		}
	}
	return found
}

// A signInView is the data of signin.html.
type signInView struct {
	Next  string // URL to continue with
	Wrong bool   // the token was wrong
}

func (i *Inspector) signInForm(v *visit) (any, error) {
	return signInView{Next: i.next(string(v.QueryArgs().Peek("next")))}, nil
}

// next returns the page to continue with after signing in; asked counts only if it is one of our
// pages.
func (i *Inspector) next(asked string) string {
	path, _, _ := strings.Cut(asked, "?")
	for n := range i.routes {
		if r := &i.routes[n]; r.page && !r.public {
			if _, ok := match(r.path, path); ok && !strings.ContainsFunc(asked, func(r rune) bool { return r <= ' ' || r == '\\' || r > '~' }) {
				return asked
			}
		}
	}
	return homePath
}

// signIn begins a session for a visitor who sends a token with the right to read.
func (i *Inspector) signIn(v *visit) error {
	form, err := readForm(v, maxSignInForm)
	if err != nil {
		return err
	}
	next := i.next(string(form.Peek("next")))
	sent := sha256.Sum256(form.Peek("token"))
	for _, t := range v.tokens {
		if hmac.Equal(t.SHA256[:], sent[:]) {
			setCookie(v, i.sessions.Begin(t.SHA256, time.Now().Add(sessionLasts)), sessionLasts)
			redirect(v.RequestCtx, next)
			return nil
		}
	}
	if len(v.tokens) == 0 || v.admitted && len(form.Peek("token")) == 0 { // none is needed
		redirect(v.RequestCtx, next)
		return nil
	}
	i.record(v, audit.Event{Action: audit.Token, Object: "POST " + signInPath, Result: audit.Refused, Reason: string(report.ReasonKey)})
	v.Response.SetStatusCode(fasthttp.StatusUnauthorized)
	return i.show(v, page{title: "Sign in", file: "signin.html", public: true}, signInView{Next: next, Wrong: true})
}

// record records an event of a visit.
func (i *Inspector) record(v *visit, e audit.Event) {
	token := v.by
	if v.in != nil {
		token = v.in.Name
	}
	of := admin.Requested(v.RequestCtx, i.data.Tenants, token)
	e.Time, e.Token, e.Address, e.Request = of.Time, of.Token, of.Address, of.Request
	v.Response.Header.Set(report.HeaderID, e.Request)
	i.data.Audit.Record(e)
}

// readForm reads a form of at most limit bytes.
func readForm(v *visit, limit int) (*fasthttp.Args, error) {
	body, whole, err := transport.ReadBody(v.RequestCtx, limit, formWait, nil)
	if err != nil || !whole {
		v.SetConnectionClose()
		return nil, &problem{fasthttp.StatusBadRequest, "The form did not arrive whole, or is too long; try again."}
	}
	form := new(fasthttp.Args)
	form.ParseBytes(body)
	return form, nil
}

// signOut makes the browser forget its session.
func (i *Inspector) signOut(v *visit) error {
	setCookie(v, "", 0)
	redirect(v.RequestCtx, signInPath)
	return nil
}

// setCookie sets a session cookie that only requests from our own pages carry, and that scripts
// cannot read. A session of "" deletes it.
func setCookie(v *visit, session string, lasts time.Duration) {
	secure := ""
	if transport.PeerOf(v.RequestCtx).TLS() != nil {
		secure = "; Secure"
	}
	v.Response.Header.Set("Set-Cookie", cookieName+"="+session+"; Path=/; Max-Age="+strconv.Itoa(int(lasts.Seconds()))+"; HttpOnly; SameSite=Strict"+secure)
}
