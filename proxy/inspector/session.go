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

	"sidenote/proxy/transport"
)

// Sessions tells the sessions that it began from others. A session is an HMAC of the digest
// of a token and of the time when the session ends, so that there is nothing to keep: it ends
// when the token changes, too, and with the process, as the key is random. Whoever reads a
// session cannot guess the token by it.
type Sessions struct{ key [sha256.Size]byte }

// NewSessions returns Sessions.
func NewSessions() *Sessions {
	s := new(Sessions)
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

const (
	cookieName    = "sidenote_session"
	sessionLasts  = 12 * time.Hour
	maxSessions   = 10 // that are looked at
	maxSignInForm = 16 << 10
	formWait      = 10 * time.Second
)

// Begin returns a session of a token that lasts until end.
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

// Valid tells whether a session is one of these tokens, and has not ended.
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

// hasSession tells whether one of the sessions that a browser sends is valid: cookies of other ports
// may have the name of ours, and come first.
func hasSession(ctx *fasthttp.RequestCtx, valid func(string) bool) (has bool) {
	tried := 0
	for name, value := range ctx.Request.Header.Cookies() {
		if string(name) == cookieName && tried < maxSessions {
			tried++
			has = has || valid(string(value))
		}
	}
	return has
}

// A signInView is what signin.html is made of.
type signInView struct {
	Next  string // where to go on
	Wrong bool   // the token was
}

func (i *Inspector) signInForm(v *visit) (any, error) {
	return signInView{Next: i.next(string(v.QueryArgs().Peek("next")))}, nil
}

// next returns where to go on after signing in: a page of ours, whatever was asked for.
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

// signIn begins a session for whoever sends a token that may read.
func (i *Inspector) signIn(v *visit) error {
	form, err := readForm(v, maxSignInForm)
	if err != nil {
		return err
	}
	next := i.next(string(form.Peek("next")))
	sent := sha256.Sum256(form.Peek("token"))
	for _, t := range v.tokens {
		if hmac.Equal(t[:], sent[:]) {
			setCookie(v, i.sessions.Begin(t, time.Now().Add(sessionLasts)), sessionLasts)
			redirect(v.RequestCtx, next)
			return nil
		}
	}
	if len(v.tokens) == 0 { // none is needed
		redirect(v.RequestCtx, next)
		return nil
	}
	v.Response.SetStatusCode(fasthttp.StatusUnauthorized)
	return i.show(v, page{title: "Sign in", file: "signin.html", public: true}, signInView{Next: next, Wrong: true})
}

// readForm reads a form of at most that many bytes.
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

// setCookie gives the browser a session that only requests from our own pages carry, and no
// script can read. "" takes it back.
func setCookie(v *visit, session string, lasts time.Duration) {
	secure := ""
	if transport.PeerOf(v.RequestCtx).TLS() != nil {
		secure = "; Secure"
	}
	v.Response.Header.Set("Set-Cookie", cookieName+"="+session+"; Path=/; Max-Age="+strconv.Itoa(int(lasts.Seconds()))+"; HttpOnly; SameSite=Strict"+secure)
}
