package inspector

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

// A page is a file of site/ inside layout.html.
type page struct {
	path   string // see routeInspector
	title  string // default title; a file that defines "title" has its own
	menu   string // label in the menu; "" if it is not listed
	file   string
	public bool // needs no session
	data   func(*Inspector, *visit) (any, error)
}

// pages returns the pages, in menu order. A more specific path precedes a pattern that also
// matches it.
func pages() []page {
	return []page{
		{path: overviewPath, title: "The last hour", menu: "Overview", file: "overview.html", data: overviewPage},
		{path: requestsPath, title: "Requests", menu: "Requests", file: "requests.html", data: (*Inspector).requests},
		{path: requestsPath + "/{id}", title: "Request", file: "request.html", data: (*Inspector).request},
		{path: askPath, title: "Ask again", file: askFile, data: askPage},
		{path: knowledgePath, title: "Knowledge", menu: "Knowledge", file: "knowledge.html", data: knowledgePage},
		{path: knowledgePath + "/{name}", title: "Knowledge base", file: "base.html", data: basePage},
		{path: deletePath, title: "Delete a document", file: "delete.html", data: deletePage},
		{path: knowledgePath + "/{name}/document", title: "Document", file: "document.html", data: documentPage},
		{path: gapsPath, title: "Gaps", menu: "Gaps", file: "gaps.html", data: gapsPage},
		{path: tenantsPath, title: "Tenants and policies", menu: "Tenants", file: "tenants.html", data: tenantsPage},
		{path: tenantsPath + "/{name}", title: "Tenant", file: "tenant.html", data: tenantPage},
		{path: policiesPath + "/{name}", title: "Policy", file: "policy.html", data: policyPage},
		{path: experimentsPath, title: "Experiments", menu: "Experiments", file: "experiments.html", data: experimentsPage},
		{path: experimentsPath + "/{name}", title: "Experiment", file: "experiment.html", data: experimentPage},
		{path: signInPath, title: "Sign in", file: "signin.html", public: true, data: (*Inspector).signInForm},
	}
}

// Paths that are used in several places.
const (
	deletePath   = knowledgePath + "/{name}/delete"
	homePath     = "/"
	requestsPath = "/requests"
	tenantsPath  = "/tenants"
	policiesPath = "/policies"
	signInPath   = "/signin"
	signOutPath  = "/signout"
)

// actions returns the routes that are not pages.
func (i *Inspector) actions() []routeInspector {
	return []routeInspector{
		{method: "GET", path: homePath, page: true, answer: func(v *visit) error { redirect(v.RequestCtx, overviewPath); return nil }},
		{method: "GET", path: overviewPath + "/json", page: true, answer: func(v *visit) error { return answerJSON(v, i.data.Overview()) }},
		{method: "GET", path: requestsPath + "/events", answer: i.events},
		{method: "GET", path: requestsPath + "/{id}/json", page: true, answer: i.requestJSON},
		{method: "GET", path: knowledgePath + "/{name}/document/json", page: true, answer: i.documentJSON},
		{method: "GET", path: gapsPath + "/json", page: true, answer: func(v *visit) error { return gapsJSON(i, v) }},
		{method: "GET", path: tenantsPath + "/{name}/json", page: true, answer: func(v *visit) error { return settingsJSON(i, v, v.name, "") }},
		{method: "GET", path: policiesPath + "/{name}/json", page: true, answer: func(v *visit) error { return settingsJSON(i, v, "", v.name) }},
		{method: "POST", path: askPath, page: true, answer: func(v *visit) error { return askAgain(i, v) }},
		{method: "POST", path: knowledgePath + "/{name}/documents", page: true, answer: i.upload},
		{method: "POST", path: deletePath, page: true, answer: i.deleteDocument},
		{method: "POST", path: signInPath, public: true, answer: i.signIn},
		{method: "POST", path: signOutPath, answer: i.signOut},
	}
}

//go:embed site
var site embed.FS

// StyleSheet returns the style sheet of the pages, for pages elsewhere.
func StyleSheet() string {
	text, err := site.ReadFile("site/style.css")
	if err != nil {
		panic("BUG: the style sheet: " + err.Error())
	}
	return string(text)
}

// filesPath is the path of styles and scripts.
const filesPath = "/site/"

// files returns the routes of the styles and scripts of site/.
func (i *Inspector) files() (routes []routeInspector) {
	entries, err := site.ReadDir("site")
	if err != nil {
		panic("BUG: the pages: " + err.Error())
	}
	for _, e := range entries {
		media := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[path.Ext(e.Name())]
		if media == "" {
			continue
		}
		routes = append(routes, routeInspector{method: "GET", path: filesPath + e.Name(), public: true, answer: func(v *visit) error {
			b, err := fs.ReadFile(site, "site/"+e.Name())
			v.Response.Header.SetContentType(media)
			v.Response.SetBodyRaw(b)
			return err
		}})
	}
	return routes
}

// route returns the route of a page.
func (i *Inspector) route(p page) routeInspector {
	return routeInspector{method: "GET", path: p.path, page: true, public: p.public, answer: func(v *visit) error {
		data, err := p.data(i, v)
		if err != nil {
			return err
		}
		return i.show(v, p, data)
	}}
}

// A view is the data of layout.html.
type view struct {
	Title    string
	Menu     []menuItem
	SignedIn bool // by a session, which can be ended
	Data     any  // of the page
}

// A menuItem is a link in the menu.
type menuItem struct {
	Name, Path string
	Here       bool // the current page is this one or below it
}

// show renders a page as the answer.
func (i *Inspector) show(v *visit, p page, data any) error {
	all := view{Title: p.title, SignedIn: v.in != nil, Data: data}
	if !p.public {
		for _, other := range pages() {
			if other.menu != "" {
				all.Menu = append(all.Menu, menuItem{other.menu, other.path, p.path == other.path || strings.HasPrefix(p.path, other.path+"/")})
			}
		}
	}
	return i.render(v.RequestCtx, p.file, "layout.html", all)
}

// templates returns functions that parse a page together with layout.html and the shared parts, when
// it is first shown: most processes never show one.
func templates() map[string]func() *template.Template {
	layout := sync.OnceValue(func() *template.Template {
		return template.Must(template.New("").Funcs(functions()).ParseFS(site, "site/layout.html", "site/parts/*.html"))
	})
	all := map[string]func() *template.Template{}
	for _, p := range append(pages(), page{file: errorFile}) {
		all[p.file] = sync.OnceValue(func() *template.Template {
			return template.Must(template.Must(layout().Clone()).ParseFS(site, "site/"+p.file))
		})
	}
	return all
}

// errorFile is the template of error pages.
const errorFile = "error.html"

// render renders a template of a file as the answer.
func (i *Inspector) render(ctx *fasthttp.RequestCtx, file, name string, data any) error {
	var b bytes.Buffer
	if err := i.templates[file]().ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("make the page %s: %w", file, err)
	}
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBodyRaw(b.Bytes())
	return nil
}
