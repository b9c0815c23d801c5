package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A crawler visits all pages of an admin port that links and forms lead to, like a browser that has
// signed in. New pages are included automatically.
type crawler struct {
	t       *testing.T
	base    string // of the admin port
	session string // a cookie; "" for none
	typed   string // into every field of a form that asks for something
	shown   io.Writer

	pages map[string]map[string]bool // what was looked at, with its ids
	todo  []string
	parts map[string]string // addresses that name a part of a page, with the page they stand on
}

// maxCrawled limits the number of pages: more would mean that links multiply.
const maxCrawled = 500

// crawl visits all pages from the start page and returns their paths.
func (c *crawler) crawl() (paths []string) {
	c.t.Helper()
	c.pages, c.parts, c.todo = map[string]map[string]bool{}, map[string]string{}, []string{"/"}
	for len(c.todo) > 0 && len(c.pages) < maxCrawled {
		next := c.todo[0]
		if c.todo = c.todo[1:]; c.pages[next] == nil {
			c.pages[next] = map[string]bool{}
			c.look(next)
		}
	}
	if len(c.todo) > 0 {
		c.t.Errorf("there are more than %d pages: %.10q", maxCrawled, c.todo)
	}
	for address, from := range c.parts {
		if page, part, _ := strings.Cut(address, "#"); !c.pages[page][part] {
			c.t.Errorf("%s links to %s, which has no such part", from, address)
		}
	}
	for path := range c.pages {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// look reads one page.
func (c *crawler) look(path string) {
	c.t.Helper()
	resp, body := browse(c.t, "GET", c.base+path, "", c.session)
	if err := resp.Header.Write(c.shown); err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.WriteString(c.shown, body)
	if to := resp.Header.Get("Location"); resp.StatusCode == http.StatusSeeOther && strings.HasPrefix(to, "/") {
		c.follow(path, to)
		return
	}
	if resp.StatusCode != http.StatusOK {
		c.t.Errorf("%s answers %d: %.300s", path, resp.StatusCode, body)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'; script-src 'self'; ") {
		c.t.Errorf("%s may load %q", path, csp)
	}
	switch media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); media {
	case "text/html":
		if len(body) > 200_000 {
			c.t.Errorf("%s has %d bytes", path, len(body))
		}
		c.read(path, body)
	case "text/css", "text/javascript":
		for _, part := range []string{"//127", "http:", "https:", "url(", "@import", "eval(", "document.write"} {
			if strings.Contains(body, part) {
				c.t.Errorf("%s has %q", path, part)
			}
		}
	case "application/json", "text/plain":
	default:
		c.t.Errorf("%s is %q", path, media)
	}
}

// read checks the elements of a page.
func (c *crawler) read(path, body string) {
	c.t.Helper()
	var form url.Values // that is open
	action := ""
	for z := html.NewTokenizer(bytes.NewReader([]byte(body))); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return
		}
		e := z.Token()
		switch {
		case kind == html.EndTagToken && e.Data == "form" && form != nil:
			c.follow(path, action+"?"+form.Encode())
			form = nil
			continue
		case kind != html.StartTagToken && kind != html.SelfClosingTagToken:
			continue
		}
		at := c.attributes(path, e)
		switch e.Data {
		case "form":
			if action = at["action"]; at["method"] == "get" {
				form = url.Values{}
			}
		case "input", "select", "textarea":
			if name := at["name"]; form != nil && name != "" {
				value := c.typed
				if at["type"] == "hidden" || at["type"] == "checkbox" || at["type"] == "number" {
					value = at["value"]
				}
				form.Set(name, value)
			}
		case "script":
			if at["src"] == "" {
				c.t.Errorf("%s has a script", path)
			}
		case "style", "iframe", "frame", "object", "embed", "base", "applet", "math":
			c.t.Errorf("%s has an element %s", path, e.Data)
		case "meta":
			if at["http-equiv"] != "" {
				c.t.Errorf("%s has %s", path, e)
			}
		}
	}
}

// attributes checks the attributes of an element.
func (c *crawler) attributes(path string, e html.Token) map[string]string {
	c.t.Helper()
	at := map[string]string{}
	for _, a := range e.Attr {
		at[a.Key] = a.Val
		switch {
		case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
			c.t.Errorf("%s has %s", path, e)
		case a.Key == "id":
			c.pages[path][a.Val] = true
		case slices.Contains([]string{"href", "src", "action", "formaction", "srcset", "poster", "data", "ping", "background", "xlink:href"}, a.Key):
			own := strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") && !strings.ContainsAny(a.Val, "\\\t\n\r")
			switch {
			case a.Val == "data:," && e.Data == "link":
			case strings.HasPrefix(a.Val, "#"):
				c.parts[path+a.Val] = path
			case !own:
				c.t.Errorf("%s leads elsewhere: %s", path, e)
			case a.Key == "href" || a.Key == "src":
				c.follow(path, a.Val)
			}
		}
	}
	return at
}

// follow queues an address of this port.
func (c *crawler) follow(from, address string) {
	page, part, _ := strings.Cut(address, "#")
	if part != "" {
		if decoded, err := url.PathUnescape(part); err == nil {
			part = decoded
		}
		c.parts[page+"#"+part] = from
	}
	c.todo = append(c.todo, page)
}

// hostileName is the name of a file, which any page may show.
const hostileName = `evil "><img src=x onerror=alert(1)><script>alert(2)<⁄script> javascript:alert(3) ‮gnp.md`

// T28: no secret is on any page or on what pages link to, whatever is kept of requests and wherever
// callers put it. The pages load nothing from elsewhere, run only their own scripts, and have no
// broken link.
func TestT28CanaryPages(t *testing.T) {
	for _, bodies := range []string{"off", "redacted", "full"} {
		t.Run(bodies, func(t *testing.T) {
			t.Parallel()
			c := newCanary(t, bodies)
			c.secrets["key that a user writes"] = "sk-canary-written-by-a-user"
			for _, name := range []string{"key of a tenant", "key of agents", "token", "unknown key", "expired token", "admin token"} {
				c.chatsEverywhere(c.secrets[name])
			}
			for _, name := range []string{"key of a tenant", "key of agents", "token"} {
				_, id := c.asks("POST", c.p.data+"/v1/chat/completions", c.secrets[name], `{"model":"gpt-4o","messages":[{"role":"user","content":"What is the bonus of sk-canary-written-by-a-user?"}]}`)
				c.explained(id)
			}
			_, id := c.asks("POST", c.p.data+"/v1/chat/completions", c.secrets["key of a tenant"], `{"model":"gpt-4o","messages":[{"role":"user","content":"May dogs come to the office?"}]}`)
			c.explained(id)
			callsTools(c)
			resp, _ := browse(t, "POST", c.p.admin+"/signin", "token="+url.QueryEscape(c.secrets["read token"]), "")
			session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
			var shown strings.Builder
			all := (&crawler{t: t, base: c.p.admin, session: session, typed: "bonus <script>" + hostileName, shown: &shown}).crawl()
			for _, path := range []string{"/overview", "/overview/json", "/requests", "/site/live.js", "/site/style.css"} {
				if !slices.Contains(all, path) {
					t.Errorf("%s was not looked at: %q", path, all)
				}
			}
			for _, part := range []string{"<h1>The last hour</h1>", "invalid-api-key", "bonus.md", "evil &#34;&gt;&lt;img src=x"} {
				if !strings.Contains(shown.String(), part) {
					t.Errorf("%q is not shown, so that not everything was looked through", part)
				}
			}
			if got := strings.Contains(shown.String(), "What is the bonus of"); got != (bodies == "full") {
				t.Errorf("texts of users are shown: %t", got)
			}
			for name, secret := range c.secrets {
				if at := strings.Index(shown.String(), secret); at >= 0 {
					t.Errorf("the %s is shown: …%s…", name, shown.String()[max(0, at-300):min(shown.Len(), at+len(secret)+40)])
				}
			}
		})
	}
}

// chatsEverywhere sends chats with a secret in every place except the texts: in headers, in the
// URL, and in fields for the upstream.
func (c *canary) chatsEverywhere(secret string) {
	c.t.Helper()
	const body = `{"model":"gpt-4o","messages":[{"role":"user","content":"What is the bonus?"}],"api_key":"%s","metadata":{"authorization":"%[1]s"}}`
	text := fmt.Sprintf(body, secret)
	for _, head := range []string{
		"POST /v1/chat/completions?api-key=%[1]s&key=%[1]s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %[1]s\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: %[1]s\r\nCookie: session=%[1]s\r\nX-Secret: %[1]s\r\nProxy-Authorization: Basic %[1]s\r\n",
		"POST http://user:%[1]s@127.0.0.1/v1/chat/completions HTTP/1.1\r\nHost: user:%[1]s@127.0.0.1\r\nAuthorization: Bearer %[1]s\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic %[1]s\r\napi-key: %[1]s\r\nUser-Agent: %[1]s\r\nSidenote-Options: %[1]s\r\n",
		"POST /v1/%[1]s/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %[1]s\r\n",
	} {
		c.sends(fmt.Sprintf(head, secret) + fmt.Sprintf("Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	}
}
