// Package inspector serves the pages of the admin port, on which people see what the model was
// really shown.
package inspector

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/model"
)

// An Inspector answers with pages. It is made by New, and safe for concurrent use.
type Inspector struct {
	data     Data
	sessions *Sessions
	routes   []routeInspector

	templates map[string]*template.Template // by their files
}

// Data is what pages are made of.
type Data struct {
	Requests  *explain.Ring            // nil: no requests are kept
	Overview  func() *explain.Overview // makes one of the last hour
	Tenants   *tenant.Directory        // who may call; nil: that is not known
	Policies  Policies                 // nil: what requests get is not known
	Modes     *tenant.Switch           // may lower the modes of policies; nil: nothing does
	Usage     budget.Reporter          // tells what tenants used; nil: nothing is counted
	Learnt    *model.Tracker           // what upstreams were seen to serve; nil: nothing
	Knowledge *explain.Knowledge       // what can be looked into; nil: nothing
	DryRun    *explain.DryRunner       // asks requests again; nil: nothing does
}

// New returns an Inspector. Others with the same sessions let the same visitors in.
func New(data Data, sessions *Sessions) *Inspector {
	i := &Inspector{data: data, sessions: sessions, templates: templates()}
	i.routes = append(i.actions(), i.files()...)
	for _, p := range pages() {
		i.routes = append(i.routes, i.route(p))
	}
	return i
}

// A Token is the SHA-256 digest of a token of the admin port.
type Token = [sha256.Size]byte

// A visit is a request for one of the pages.
type visit struct {
	*fasthttp.RequestCtx
	name   string  // what stands in the path for the part in braces
	tokens []Token // of which a session may be made
	in     bool    // by a session, which can be ended
}

// A routeInspector answers one method on one path.
type routeInspector struct {
	method string // GET includes HEAD
	path   string // one part may be a name in braces, which stands for anything
	public bool   // it needs no session
	page   bool   // for people: who may not see it is asked to sign in
	answer func(*visit) error
}

// Answer answers a request, unless there is nothing at its path. Its Host and Origin were
// checked before. If admitted is false, it needs a session that was made of one of the
// tokens.
func (i *Inspector) Answer(ctx *fasthttp.RequestCtx, admitted bool, tokens func() []Token) bool {
	v := &visit{RequestCtx: ctx}
	r, allowed := i.find(v)
	if allowed == "" {
		return false
	}
	for _, h := range headers() {
		ctx.Response.Header.Set(h[0], h[1])
	}
	if !admitted {
		v.tokens = tokens()
		v.in = hasSession(ctx, func(session string) bool { return i.sessions.Valid(session, v.tokens) })
	}
	var err error
	switch {
	case foreign(ctx):
		err = &problem{fasthttp.StatusForbidden, "Other sites may lead here, and load nothing from here."}
	case r == nil:
		ctx.Response.Header.Set("Allow", allowed)
		err = &problem{fasthttp.StatusMethodNotAllowed, "This page cannot be asked for in that way."}
	case admitted || v.in || r.public:
		err = r.answer(v)
	case r.page:
		redirect(ctx, signInPath+"?next="+url.QueryEscape(string(ctx.RequestURI())))
	default:
		err = &problem{fasthttp.StatusUnauthorized, "Sign in first."}
	}
	if err != nil {
		i.fail(v, err)
	}
	return true
}

// find returns the route of a request. allowed are the methods of the path, "" if there is
// nothing at it.
func (i *Inspector) find(v *visit) (found *routeInspector, allowed string) {
	path, method := string(v.Path()), string(v.Method())
	if method == "HEAD" {
		method = "GET"
	}
	if path == homePath && !wantsHTML(v.RequestCtx) { // the admin port tells programs what it serves
		return nil, ""
	}
	for n := range i.routes {
		r := &i.routes[n]
		name, ok := match(r.path, path)
		if !ok {
			continue
		}
		if r.method == method {
			v.name = name
			return r, method
		}
		if allowed != "" {
			allowed += ", "
		}
		allowed += r.method
	}
	return nil, allowed
}

// match tells whether path is of the form of pattern, and what stands for its part in braces.
func match(pattern, path string) (name string, ok bool) {
	before, rest, named := strings.Cut(pattern, "{")
	if !named {
		return "", path == pattern
	}
	_, after, _ := strings.Cut(rest, "}")
	name, ok = strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, after)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// wantsHTML tells whether a browser asks.
func wantsHTML(ctx *fasthttp.RequestCtx) bool {
	return strings.Contains(string(ctx.Request.Header.Peek("Accept")), "text/html")
}

// foreign tells whether a page of another site, or of another port, asks for something but by a link:
// for a picture or a script browsers send no Origin, and each could be one of the few that may follow
// requests.
func foreign(ctx *fasthttp.RequestCtx) bool {
	header := func(name string) string { return string(ctx.Request.Header.Peek(name)) }
	switch header("Sec-Fetch-Site") {
	case "", "none", "same-origin": // no browser, or one whose user typed the address
		return false
	}
	return header("Sec-Fetch-Mode") != "navigate" || header("Sec-Fetch-Dest") != "document"
}

// headers are the lines that every answer has: it may load nothing but files of ours, run no
// script but those, stand in no frame, be held by no window of others, and be kept nowhere. With a stricter policy of
// referrers browsers would send forms with the origin "null", which is refused.
func headers() [][2]string {
	return [][2]string{
		{"Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cache-Control", "no-store"},
	}
}

// redirect leads to a path of ours. Location has no host, as that of the request may be
// another's by the time it is followed.
func redirect(ctx *fasthttp.RequestCtx, path string) {
	ctx.Response.SetStatusCode(fasthttp.StatusSeeOther)
	ctx.Response.Header.Set("Location", path)
}

// A problem is why a page cannot be shown.
type problem struct {
	status  int
	message string // for people
}

// Error returns the message.
func (p *problem) Error() string { return p.message }

// fail shows why a page cannot be shown.
func (i *Inspector) fail(v *visit, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{fasthttp.StatusInternalServerError, err.Error()}
	}
	v.Response.ResetBody()
	v.Response.SetStatusCode(p.status)
	if err := i.show(v, page{file: errorFile, title: fasthttp.StatusMessage(p.status)}, p.message); err != nil {
		panic(fmt.Sprintf("BUG: the page of errors: %v", err))
	}
}
