package proxy_test

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// compressedForms returns text compressed, by Content-Encoding. (br is in the tests of package
// answer.)
func compressedForms(t *testing.T, text string) map[string]string {
	t.Helper()
	packed := map[string]string{}
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":    func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate": func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriterLevel(w, flate.BestSpeed) },
		"zstd":    func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	} {
		var b bytes.Buffer
		w, err := open(&b)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		packed[name] = b.String()
	}
	return packed
}

// A compressed chat request that is rewritten is sent uncompressed; an unchanged one is sent as
// received.
func TestCompressedRequests(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	plain := open(t, u, nil)
	plain.post(t, chatBody)
	want := (<-u.seen).body
	off := open(t, u, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off })
	for name, body := range compressedForms(t, chatBody) {
		resp, _ := plain.post(t, body, "Content-Encoding: "+name)
		got := <-u.seen
		if got.body != want || got.header("Content-Encoding") != "" || got.header("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("%s: %q went up as %q", name, got.head, got.body)
		}
		if status := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(status, "injected; ") {
			t.Errorf("%s: %s", name, status)
		}
		off.post(t, body, "Content-Encoding: "+name)
		if got := <-u.seen; got.body != body || got.header("Content-Encoding") != name {
			t.Errorf("%s, nothing to change: %q went up as %q", name, got.head, got.body)
		}
	}
}

// A body that cannot be decoded, or is a decompression bomb, is sent as received, or refused by a
// strict policy.
func TestUnreadableRequests(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, nil)
	strict := open(t, u, func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure = true })
	f := func(body, reason string, code int, lines ...string) {
		t.Helper()
		resp, _ := lenient.post(t, body, lines...)
		if got := resp.Header.Get(report.HeaderStatus); got != "untouched; reason="+reason || resp.StatusCode != 200 {
			t.Errorf("%s: %d, %s", lines, resp.StatusCode, got)
		}
		s := <-u.seen
		if s.body != body || "Content-Encoding: "+s.header("Content-Encoding") != lines[0] {
			t.Errorf("%s: went up as %q, %.80q", lines, s.head, s.body)
		}
		resp, text := strict.post(t, body, lines...)
		if got := resp.Header.Get(report.HeaderStatus); got != "refused; reason="+reason || resp.StatusCode != code || !strings.Contains(text, `"error":{`) {
			t.Errorf("strict, %s: %d, %s, %s", lines, resp.StatusCode, got, text)
		}
		if len(u.seen) > 0 {
			t.Errorf("strict, %s: reached the upstream as %.80q", lines, (<-u.seen).body)
		}
	}
	bomb := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 4<<20) + `"}]}`
	for name, packed := range compressedForms(t, bomb) {
		f(packed, "body-too-large", 413, "Content-Encoding: "+name)
	}
	for name, packed := range compressedForms(t, chatBody) {
		f(packed[:len(packed)-7], "encoded-body", 400, "Content-Encoding: "+name)
		f(packed, "encoded-body", 400, "Content-Encoding: "+name+", gzip")
		f(packed, "encoded-body", 400, "Content-Encoding: "+name, "Content-Encoding: gzip")
	}
	for name, packed := range compressedForms(t, `{"messages":`) {
		f(packed, "not-json", 400, "Content-Encoding: "+name)
	}
	f(chatBody, "encoded-body", 400, "Content-Encoding: compress")
}
