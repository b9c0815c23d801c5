package admin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/admin"
)

// A form is taken for documents only, with the token; its files keep their folders.
func TestKnowledgeForm(t *testing.T) {
	c := &fakeManager{}
	url := startManager(t, c)
	const (
		head = "--b\r\nContent-Disposition: form-data; "
		name = head + "name=\"name\"\r\n\r\nTitle\r\n"
		file = head + "name=\"file\"; filename=\"house/a b.md\"\r\nContent-Type: text/markdown\r\n\r\nant\r\n"
		png  = head + "name=\"file\"; filename=\"a.png\"\r\n\r\nant\r\n"
		end  = "--b--\r\n"
	)
	f := func(method, path, body string, status int, want string, headers ...string) {
		t.Helper()
		headers = append(headers, "Content-Type: multipart/form-data; boundary=b")
		code, got := call(t, method, url+"/v1/knowledge"+path, body, headers...)
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s %.200s: %d, %s; want %d, %s", method, path, body, code, got, status, want)
		}
	}
	const token = "Authorization: Bearer tok"
	f("POST", "/kb1/documents", file+name+end, 200, `{"object":"list","data":[{"file":"house/a b.md"`, token)
	if diff := cmp.Diff([]admin.NewFile{{Name: "house/a b.md", Raw: []byte("ant"), Title: "Title"}}, c.files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f("POST", "/kb1/documents", png+file+end, 200, `"error":{"code":"file_unsupported","message":"a.png is not read.","param":"file[0]"}`, token)
	f("POST", "/kb1/documents", png+png+end, 415, `"param":"file[0]"`, token)
	c.files = nil
	f("POST", "/kb1/documents", file+end, 401, "admin token")
	f("POST", "/kb1/documents", file+end, 403, "foreign_origin", token, "Origin: https://evil.example")
	f("POST", "/kb1/ingest", file+end, 415, "application/json", token)
	f("PUT", "/kb1/documents/a", file+end, 415, "application/json", token)
	f("POST", "/kb1/documents", file+name+file+end, 400, `"param":"name"`, token)
	f("POST", "/kb1/documents", name+end, 400, "holds no file", token)
	f("POST", "/kb1/documents", file, 400, "ends too early", token)
	f("POST", "/kb1/documents", strings.Repeat(file, 101)+end, 400, "more than 100 files", token)
	f("POST", "/kb1/documents", head+"name=\"file\"\r\n\r\nant\r\n"+end, 400, "no filename", token)
	for _, bad := range []string{"/etc/a.md", "../a.md", ".", "a//b.md", "a\tb.md", strings.Repeat("a", 1025)} {
		f("POST", "/kb1/documents", strings.Replace(file, "house/a b.md", bad, 1)+end, 400, `"param":"file[0]"`, token)
	}
	if len(c.files) != 0 {
		t.Errorf("%d files were written", len(c.files))
	}
}
