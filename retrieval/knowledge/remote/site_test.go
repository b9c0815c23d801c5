package remote_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/remote"
)

// A website serves pages by path; the text of a page is HTML unless its type says otherwise.
type website struct {
	URL string

	mu     sync.Mutex
	pages  map[string]served
	asked  []string
	agents map[string]bool
}

// A served page has a text, or a handler.
type served struct {
	text, kind string
	handle     http.HandlerFunc
}

func serveSite(t *testing.T, pages map[string]served) *website {
	t.Helper()
	w := &website{pages: pages, agents: map[string]bool{}}
	s := httptest.NewServer(w)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	w.URL = s.URL
	return w
}

func (w *website) ServeHTTP(r http.ResponseWriter, q *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, q.URL.RequestURI())
	w.agents[q.UserAgent()] = true
	p, ok := w.pages[q.URL.RequestURI()]
	w.mu.Unlock()
	etag := fmt.Sprintf("%q", fmt.Sprint(len(p.text), p.text))
	switch {
	case !ok:
		http.NotFound(r, q)
	case p.handle != nil:
		p.handle(r, q)
	case q.Header.Get("If-None-Match") == etag:
		r.WriteHeader(http.StatusNotModified)
	default:
		r.Header().Set("ETag", etag)
		if p.kind == "" {
			p.kind = "text/html; charset=utf-8"
		}
		r.Header().Set("Content-Type", p.kind)
		_, _ = io.WriteString(r, p.text)
	}
}

// set changes a page; a zero one is deleted.
func (w *website) set(path string, p served) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.text == "" && p.handle == nil {
		delete(w.pages, path)
		return
	}
	w.pages[path] = p
}

// requests returns what was asked for since the last call.
func (w *website) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

func link(paths ...string) served {
	text := "<h1>Page</h1>"
	for _, p := range paths {
		text += `<a href="` + p + `">x</a>`
	}
	return served{text: text}
}

func status(code int) served {
	return served{handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }}
}

// Pages are found by links below the start, have the address as their url, and are not sent again
// while they are the same.
func TestSiteCrawls(t *testing.T) {
	w := serveSite(t, map[string]served{
		"/robots.txt":      {text: "User-agent: Sidenote\nDisallow: /docs/secret\n", kind: "text/plain"},
		"/docs/":           {text: `<base href="/docs/sub/"><a href="../a">a</a><a href="b.html#part">b</a><a href="/docs/secret">s</a><a href="/blog/">blog</a><a href="https://other.example/">o</a><a href="mailto:a@b">m</a>`},
		"/docs/a":          {text: `<link rel="canonical" href="/docs/a-page"><a href="/docs/a?x=1">again</a><a href="/docs/manual.pdf">m</a><a href="/docs/notes">n</a>`},
		"/docs/a?x=1":      {text: `<link rel="canonical" href="/docs/a">`},
		"/docs/sub/b.html": {text: "<p>B</p><a href='/docs/pic.png'>p</a><a href='/docs/none'>none</a>"},
		"/docs/manual.pdf": {text: "%PDF-1.4", kind: "application/pdf"},
		"/docs/notes":      {text: "# Notes", kind: "text/markdown; charset=iso-8859-1"},
		"/docs/pic.png":    {text: "png", kind: "image/png"},
		"/docs/secret":     link(), "/blog/": link(),
	})
	source := remote.Site{URLs: []string{w.URL + "/docs/"}, Network: private}
	m := mirrorOf(t, source)
	r := fetch(t, source, m)
	holds(t, m, "docs/index.html", "docs/a.html", "docs/sub/b.html", "docs/manual.pdf", "docs/notes.md")
	if r.Fetched != 5 || r.Failed != 0 || len(r.Notes) != 2 {
		t.Errorf("the report is %+v", r)
	}
	if a := m.Address("docs/a.html"); a != w.URL+"/docs/a-page" {
		t.Errorf("the address of a page with a canonical link is %q", a)
	}
	if a := m.Address("docs/index.html"); a != w.URL+"/docs/" {
		t.Errorf("the address of the first page is %q", a)
	}
	if asked := w.requests(); slices.Contains(asked, "/docs/secret") || slices.Contains(asked, "/blog/") || asked[0] != "/robots.txt" {
		t.Errorf("it asked for %q", asked)
	}
	if !w.agents[remote.DefaultUserAgent] {
		t.Errorf("user agents are %v", w.agents)
	}
	w.set("/docs/notes", served{text: "# Notes 2", kind: "text/markdown"})
	if r = fetch(t, source, m); r.Fetched != 1 || r.Unchanged != 4 || r.Removed != 0 {
		t.Errorf("after a change the report is %+v", r)
	}
	w.set("/docs/manual.pdf", served{})
	if r = fetch(t, source, m); r.Removed != 1 || r.Failed != 0 {
		t.Errorf("after a deletion the report is %+v", r)
	}
	holds(t, m, "docs/index.html", "docs/a.html", "docs/sub/b.html", "docs/notes.md")
}

// A sitemap, or an index of several, lists the pages; one that cannot be read in full removes nothing.
func TestSitemap(t *testing.T) {
	var zipped strings.Builder
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>/b</loc></url><url><loc>https://other.example/c</loc></url></urlset>`)
	must(t, err, z.Close())
	w := serveSite(t, map[string]served{
		"/sitemap.xml": {text: `<?xml version="1.0"?><sitemapindex><sitemap><loc>/one.xml</loc></sitemap><sitemap><loc>/two.xml.gz</loc></sitemap><sitemap><loc>/sitemap.xml</loc></sitemap></sitemapindex>`, kind: "text/xml"},
		"/one.xml":     {text: `<urlset><url><loc>/a</loc><lastmod>2026-01-01</lastmod></url></urlset>`, kind: "text/xml"},
		"/two.xml.gz":  {text: zipped.String(), kind: "application/gzip"},
		"/a":           link("/x"), "/b": link(), "/x": link(),
	})
	source := remote.Site{Sitemap: w.URL + "/sitemap.xml", Network: private}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	holds(t, m, "a.html", "b.html")
	for want, p := range map[string]served{
		"status 500": status(500), "<html>": {text: "<html><body>Maintenance</body></html>"}, "EOF": {text: `<urlset><url><loc>/b</loc></url>`},
		"status 404": {}, "entity": {text: `<!DOCTYPE x [<!ENTITY a "b">]><urlset><url><loc>&a;</loc></url></urlset>`},
	} {
		w.set("/one.xml", p)
		failing(t, source, m, want)
		holds(t, m, "a.html", "b.html")
	}
	w.set("/one.xml", served{text: "<urlset></urlset>"})
	fetch(t, source, m)
	holds(t, m, "b.html")
}

// What fails stays, with its links, and nothing is removed unless the server says that it is gone.
func TestSiteKeepsWhatFails(t *testing.T) {
	w := serveSite(t, map[string]served{"/": link("/a", "/b", "/c"), "/a": link("/a1"), "/a1": link(), "/b": link(), "/c": link()})
	source := remote.Site{URLs: []string{w.URL}, Network: private, Limits: remote.Limits{Idle: 200 * time.Millisecond, File: 10_000}}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	all := []string{"index.html", "a.html", "a1.html", "b.html", "c.html"}
	holds(t, m, all...)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for {
			if _, err := io.WriteString(w, strings.Repeat("endless ", 1000)); err != nil {
				return
			}
		}
	}
	lying := func(w http.ResponseWriter, _ *http.Request) {
		c, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buffer.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\nshort")
		_ = errors.Join(buffer.Flush(), c.Close())
	}
	for name, p := range map[string]served{
		"500": status(500), "403": status(403), "429": status(429), "reset": {handle: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"hang": {handle: func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }}, "endless": {handle: endless}, "lying length": {handle: lying},
		"away": {handle: func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://169.254.169.254/latest/", 302)
		}},
		"loop": {handle: func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/a", 302) }},
	} {
		w.set("/a", p)
		r := fetch(t, source, m)
		if r.Failed != 1 || !strings.Contains(r.Problem(), "1 of 5 failed: "+w.URL+"/a: ") {
			t.Errorf("%s: the report is %q, %+v", name, r.Problem(), r)
		}
		holds(t, m, all...)
	}
	w.set("/", link("/a", "/b")) // c is not linked any more, but a failed page might link to it
	fetch(t, source, m)
	holds(t, m, all...)
	w.set("/c", served{})
	if r := fetch(t, source, m); r.Removed != 1 {
		t.Errorf("the report is %+v", r)
	}
	holds(t, m, "index.html", "a.html", "a1.html", "b.html")
	for _, path := range []string{"/", "/a", "/a1", "/b"} {
		w.set(path, status(503))
	}
	failing(t, source, m, "status 503")
	w.set("/robots.txt", status(500))
	failing(t, source, m, "robots.txt: status 500")
	holds(t, m, "index.html", "a.html", "a1.html", "b.html")
}

// A site that never ends is read up to max_pages, and one of too many bytes up to these.
func TestSiteNeverEnds(t *testing.T) {
	w := serveSite(t, map[string]served{"/": link("/cal/1")})
	for i := range 1000 {
		w.pages[fmt.Sprintf("/cal/%d", i)] = link(fmt.Sprintf("/cal/%d", i+1), fmt.Sprintf("/cal/%d?month=%d", i, i), "x/x/")
	}
	source := remote.Site{URLs: []string{w.URL}, Network: private, MaxPages: 20}
	m := mirrorOf(t, source)
	r := fetch(t, source, m)
	if r.Listed != 20 || m.Files() > 20 || !strings.Contains(strings.Join(r.Notes, " "), "more than 20 pages") {
		t.Errorf("the report is %+v", r)
	}
	source.MaxPages, source.Limits.Bytes = 500, 1000
	failing(t, source, mirrorOf(t, source), "the pages have more than 1000 bytes")
}

// Redirects within the host are followed to the address that counts.
func TestSiteRedirects(t *testing.T) {
	to := func(path string) served {
		return served{handle: func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, path, http.StatusMovedPermanently) }}
	}
	w := serveSite(t, map[string]served{"/": link("/old", "/new", "/out"), "/old": to("/new"), "/new": link(), "/out": to("/private"), "/private": link()})
	source := remote.Site{URLs: []string{w.URL}, Exclude: []string{"/private"}, Network: private}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	holds(t, m, "index.html", "new.html")
}

// Names and rights are checked after they are resolved, at each redirect.
func TestSitePrivateAddresses(t *testing.T) {
	w := serveSite(t, map[string]served{"/": link()})
	for _, u := range []string{w.URL, strings.Replace(w.URL, "127.0.0.1", "localhost", 1), "http://[::1]:1/", "http://10.0.0.1/", "http://[::ffff:127.0.0.1]:1/", "http://[64:ff9b::7f00:1]/", "http://0.0.0.0:1/"} {
		source := remote.Site{URLs: []string{u}}
		failing(t, source, mirrorOf(t, source), "is a private address")
	}
	source := remote.Site{URLs: []string{"http://169.254.169.254/"}, Network: private}
	failing(t, source, mirrorOf(t, source), "is a link-local address")
	if asked := w.requests(); len(asked) > 0 {
		t.Errorf("it asked for %q", asked)
	}
}

// Encodings that only the header names, odd paths and files whose names would be hidden.
func TestSiteFiles(t *testing.T) {
	w := serveSite(t, map[string]served{
		"/":  link("/a/../b", "/%2e%2e/%2e%2e/up", "/.env", "/a%2Fb", "/q?a=1&b=/../x", "/"+strings.Repeat("n", 300), "/latin", "/dir", "/dir/page"),
		"/b": link(), "/up": link(), "/.env": {text: "a=b", kind: "text/plain"}, "/a%2Fb": link(), "/q?a=1&b=/../x": link(), "/" + strings.Repeat("n", 300): link(),
		"/latin": {text: "<p>gr\xfcn</p>", kind: "text/html; charset=iso-8859-1"}, "/dir": link(), "/dir/page": link(),
	})
	source := remote.Site{URLs: []string{w.URL}, Network: private}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	for name, text := range filesOf(t, m) {
		if strings.Contains(name, "..") && !strings.Contains(name, "@") || strings.HasPrefix(name, ".") || len(name) > 200 {
			t.Errorf("there is a file %q", name)
		}
		if name == "latin.html" && text != "\ufeff<p>grün</p>" {
			t.Errorf("%s is %q", name, text)
		}
	}
	if m.Files() < 8 {
		t.Errorf("there are %d files", m.Files())
	}
}

// The rate that robots.txt asks for is kept, and a crawl ends when it is told to.
func TestSiteEndsWhenToldTo(t *testing.T) {
	w := serveSite(t, map[string]served{"/robots.txt": {text: "User-agent: *\nCrawl-delay: 20\n", kind: "text/plain"}, "/": link("/a"), "/a": link()})
	source := remote.Site{URLs: []string{w.URL}, Network: private}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	m := mirrorOf(t, source)
	if _, err := source.Fetch(ctx, m, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetch: %v", err)
	}
	if asked := w.requests(); !slices.Equal(asked, []string{"/robots.txt"}) {
		t.Errorf("it asked for %q", asked)
	}
}
