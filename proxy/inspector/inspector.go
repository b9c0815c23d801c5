// Package inspector serves the pages of the admin port, which show what models were really sent.
package inspector

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/model"
)

// An Inspector serves the pages. Create it with New; it is safe for concurrent use.
type Inspector struct {
	data     Data
	sessions *Sessions
	routes   []routeInspector

	templates map[string]func() *template.Template // by file name
}

// Data is the source of the pages' content.
type Data struct {
	Requests  *explain.Ring            // nil: no requests are kept
	Overview  func() *explain.Overview // returns the overview of the last hour
	Tenants   *tenant.Directory        // who may call; nil if unknown
	Policies  Policies                 // nil: the policies of requests are unknown
	Modes     *tenant.Switch           // may lower the modes of policies; may be nil
	Usage     budget.Reporter          // usage of tenants; nil: nothing is counted
	Learnt    *model.Tracker           // what was learnt about upstreams; may be nil
	Knowledge *explain.Knowledge       // the knowledge bases; may be nil
	DryRun    *explain.DryRunner       // for asking requests again; may be nil
	Gaps      Gaps                     // what recorded questions lack; may be nil
	Audit     *audit.Log               // gets changes, and who reads texts of requests; may be nil
	Documents Documents                // changes documents; nil: they cannot be changed
	// Experiments are the comparisons of policies; nil: there are none.
	Experiments *experiment.Store
}

// New returns an Inspector. Inspectors with the same sessions accept the same visitors.
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

// A visit is a request for a page.
type visit struct {
	*fasthttp.RequestCtx
	name     string        // value of the path's part in braces
	by       string        // name of the token that was sent as a bearer token; "" for none
	admitted bool          // may read without a session
	tokens   []admin.Token // tokens that sessions may be based on
	in       *admin.Token  // of the session, which can be ended; nil: not signed in
}

// A routeInspector handles one method on one path.
type routeInspector struct {
	method string // GET includes HEAD
	path   string // a part in braces matches any name
	public bool   // needs no session
	page   bool   // a page for people: visitors without access are asked to sign in
	answer func(*visit) error
}

// Answer answers a request and returns true, unless there is nothing at its path. Host and Origin
// have been checked. If admitted is false, the request needs a session based on one of the tokens
// that may inspect. Changes always need one based on a token that may change everything.
func (i *Inspector) Answer(ctx *fasthttp.RequestCtx, by string, admitted bool, tokens func() []admin.Token) bool {
	v := &visit{RequestCtx: ctx, by: by, admitted: admitted}
	r, allowed := i.find(v)
	if allowed == "" {
		return false
	}
	for _, h := range headers() {
		ctx.Response.Header.Set(h[0], h[1])
	}
	if signingIn := string(ctx.Path()) == signInPath; !admitted || signingIn || len(ctx.Request.Header.Cookie(cookieName)) > 0 {
		v.tokens = slices.DeleteFunc(tokens(), func(t admin.Token) bool { return !t.MayInspect() })
		v.in = i.sessions.tokenOf(ctx, v.tokens)
	}
	var err error
	switch {
	case foreign(ctx):
		err = &problem{fasthttp.StatusForbidden, "Other sites may link to these pages but not load anything from them."}
	case r == nil:
		ctx.Response.Header.Set("Allow", allowed)
		err = &problem{fasthttp.StatusMethodNotAllowed, "This page cannot be asked for in that way."}
	case admitted || v.in != nil || r.public:
		err = r.answer(v)
	case r.page:
		redirect(ctx, signInPath+"?next="+url.QueryEscape(string(ctx.RequestURI())))
	default:
		err = &problem{fasthttp.StatusUnauthorized, "Sign in first."}
	}
	switch {
	case err == nil:
	case errors.Is(err, errNoToken):
		redirect(ctx, signInPath+"?next="+url.QueryEscape(string(ctx.RequestURI())))
	default:
		i.fail(v, err)
	}
	return true
}

// errNoToken is the error of a page that needs a token even where reading needs none.
var errNoToken = errors.New("sign in first")

// find returns the route of a request. allowed lists the methods of the path; "" if there is
// nothing at it.
func (i *Inspector) find(v *visit) (found *routeInspector, allowed string) {
	path, method := string(v.Path()), string(v.Method())
	if method == "HEAD" {
		method = "GET"
	}
	if path == homePath && !wantsHTML(v.RequestCtx) { // programs get the text of the admin port
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

// match reports whether path matches pattern, and returns the part for the braces.
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

// wantsHTML reports whether the request accepts HTML, as browsers do.
func wantsHTML(ctx *fasthttp.RequestCtx) bool {
	return strings.Contains(string(ctx.Request.Header.Peek("Accept")), "text/html")
}

// foreign reports whether a page of another site or port loads something other than by a link.
// Browsers send no Origin for images and scripts, and each such load could take one of the few
// slots for following requests.
func foreign(ctx *fasthttp.RequestCtx) bool {
	header := func(name string) string { return string(ctx.Request.Header.Peek(name)) }
	switch header("Sec-Fetch-Site") {
	case "", "none", "same-origin": // no browser, or a user who typed the address
		return false
	}
	return header("Sec-Fetch-Mode") != "navigate" || header("Sec-Fetch-Dest") != "document"
}

// headers returns the headers of every answer: it may load only our own files and scripts, must
// not be framed, opened by foreign windows, or cached. With a stricter Referrer-Policy browsers
// would send forms with the origin "null", which is refused.
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

// redirect redirects to a path of this server. Location has no host, since the request's host may
// belong to somebody else by the time it is followed.
func redirect(ctx *fasthttp.RequestCtx, path string) {
	ctx.Response.SetStatusCode(fasthttp.StatusSeeOther)
	ctx.Response.Header.Set("Location", path)
}

// A problem is an error that is shown instead of a page.
type problem struct {
	status  int
	message string // for people
}

// Error returns the message.
func (p *problem) Error() string { return p.message }

// fail shows an error instead of a page.
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
