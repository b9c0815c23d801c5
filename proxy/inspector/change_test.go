package inspector_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/inspector"
)

// changing are bases whose documents may be changed, except for those of elsewhere.
type changing struct {
	bases

	mu      sync.Mutex
	files   []string // that were written
	removed []string
}

func (*changing) Changeable(_ context.Context, base string) error {
	if base == "elsewhere" {
		return errors.New("it is read from /docs")
	}
	return nil
}

func (c *changing) PutFile(_ context.Context, _ string, f admin.NewFile) (admin.WrittenFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasSuffix(f.Name, ".png") {
		return admin.WrittenFile{}, admin.Refuse(415, "file_unsupported", "%s was not read: PNG is not supported.", f.Name)
	}
	c.files = append(c.files, f.Name+": "+string(f.Raw))
	return admin.WrittenFile{File: f.Name, Documents: 2, Changed: 2, Removed: 1, Notes: []admin.FileNote{{Code: "part", Message: "line 3 is not JSON"}}}, nil
}

func (c *changing) Remove(_ context.Context, _, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "gone.md" {
		return admin.Refuse(404, "not_found", "There is no document %q.", id)
	}
	c.removed = append(c.removed, id)
	return nil
}

func (c *changing) data() inspector.Data {
	d := c.bases.data()
	d.Documents = c
	return d
}

// withStateToken is a port without configured tokens: anyone may read, and the token of the state
// folder is needed to write.
func withStateToken(h *admin.Handler) {
	h.StateToken = func() (string, error) { return "state", nil }
}

// A user without a shell signs in, adds files and deletes a document, with the keyboard alone.
func TestChangingDocuments(t *testing.T) {
	c := new(changing)
	tb := openTab(t, serve(t, c.data(), withStateToken))
	tb.open("/knowledge/hr")
	tb.do(chromedp.Click(`a[href="/signin?next=%2Fknowledge%2Fhr"]`), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", "state\r"), chromedp.WaitVisible("#file"))
	tb.check()

	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"a.jsonl", "b.png"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	tb.do(chromedp.SetUploadFiles("#file", paths), chromedp.Focus("form[enctype] button"), chromedp.SendKeys("form[enctype] button", "\r"), chromedp.WaitVisible("ul[role=status]"))
	if got := eval[string](tb, `document.querySelector("ul[role=status]").innerText`); got != "a.jsonl: 2 documents, 2 new or changed, 1 of an earlier file removed; line 3 is not JSON\nb.png: b.png was not read: PNG is not supported." {
		t.Errorf("%q", got)
	}
	tb.check()
	tb.screenshots("files added")

	tb.open("/knowledge/hr?text=leave")
	tb.do(chromedp.Focus("td form button"), chromedp.SendKeys("td form button", "\r"), chromedp.WaitVisible("form.ask[action$=delete]"))
	tb.check()
	tb.screenshots("delete a document")
	tb.do(chromedp.Focus("form.ask button"), chromedp.SendKeys("form.ask button", "\r"), chromedp.WaitVisible("#file"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.files, []string{"a.jsonl: of a.jsonl"}) || !slices.Equal(c.removed, []string{"leave.md"}) {
		t.Errorf("written %q, removed %q", c.files, c.removed)
	}
}

// Where documents cannot be changed, the page says why, and offers nothing.
func TestUnchangeableDocuments(t *testing.T) {
	tb := openTab(t, serve(t, new(changing).data(), withStateToken))
	tb.open("/knowledge/elsewhere")
	if got := eval[string](tb, `document.querySelector("#main").innerText`); !strings.Contains(got, "Documents cannot be added or deleted here: it is read from /docs") {
		t.Error(got)
	}
	tb.check()
}

// Changes need a session that is based on the token for writing, and come from our own pages.
func TestChangingNeedsTheAdminToken(t *testing.T) {
	c := new(changing)
	address := serve(t, c.data(), func(h *admin.Handler) {
		h.Token, h.ReadToken = proxy.NewSecret("write"), proxy.NewSecret("read")
	})
	session := func(token string) string {
		in := ask(t, "POST", address+"/signin", "token="+token)
		cookie, _, _ := strings.Cut(in.Get("Set-Cookie"), ";")
		return "Cookie: " + cookie
	}
	const media, file = "Content-Type: multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\nant\r\n--b--\r\n"
	f := func(code int, want string, lines ...string) {
		t.Helper()
		if a := ask(t, "POST", address+"/knowledge/hr/documents", file, append(lines, media)...); a.code != code || !strings.Contains(a.body, want) {
			t.Errorf("adding, %q: %d %s", lines, a.code, a.body)
		}
		if code == 200 {
			code, want = 303, ""
		}
		if a := ask(t, "POST", address+"/knowledge/hr/delete", "id=leave.md", lines...); a.code != code || !strings.Contains(a.body, want) {
			t.Errorf("deleting, %q: %d %s", lines, a.code, a.body)
		}
	}
	f(303, "")
	f(303, "", "Cookie: sidenote_session=9999999999.00")
	f(403, "this session may only read", session("read"))
	f(403, "this session may only read", "Authorization: Bearer write") // pages of programs are the API
	f(403, "foreign_origin", session("write"), "Origin: https://evil.example")
	f(403, "foreign_origin", session("write"), "Origin: http://localhost:3000")
	if len(c.files)+len(c.removed) > 0 {
		t.Fatalf("written %q, removed %q", c.files, c.removed)
	}
	f(200, "a.md", session("write"), "Origin: "+address)
	if len(c.files) != 1 || len(c.removed) != 1 {
		t.Errorf("written %q, removed %q", c.files, c.removed)
	}
	as := session("write")
	for path, want := range map[string]int{
		"/knowledge/elsewhere/delete?id=a": 409, "/knowledge/none/delete?id=a": 404, "/knowledge/hr/delete?id=" + url.QueryEscape(hostile): 200,
	} {
		if a := ask(t, "GET", address+path, "", as); a.code != want || strings.Contains(a.body, "<script>alert") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if a := ask(t, "POST", address+"/knowledge/hr/delete", "id=gone.md", as); a.code != 409 || !strings.Contains(a.body, "There is no document") {
		t.Errorf("%d %s", a.code, a.body)
	}
	if a := ask(t, "POST", address+"/knowledge/hr/documents", "--b", as, media); a.code != 400 || !strings.Contains(a.body, "Nothing was added") {
		t.Errorf("%d %s", a.code, a.body)
	}
}
