package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"sidenote/retrieval/knowledge/remote"
)

// A bucket is one of an S3 server on this machine. fault, if not nil, answers requests in its place.
type bucket struct {
	remote.S3
	t     *testing.T
	back  *s3mem.Backend
	fault atomic.Pointer[fault]
}

// A fault may answer a request in place of a server.
type fault func(w http.ResponseWriter, q *http.Request) bool

func newBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{t: t, back: s3mem.New()}
	must(t, b.back.CreateBucket("docs"))
	next := gofakes3.New(b.back, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if f := b.fault.Load(); f == nil || !(*f)(w, q) {
			next.ServeHTTP(w, q)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	text := func(s string) func() string { return func() string { return s } }
	b.S3 = remote.S3{Endpoint: s.URL, Bucket: "docs", Region: "us-east-1", AccessKey: text("key"), SecretKey: text("s3cret"), Network: private}
	return b
}

func (b *bucket) fail(f fault) { b.fault.Store(&f) }

func (b *bucket) put(key, text string) {
	b.t.Helper()
	_, err := b.back.PutObject("docs", key, map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}, strings.NewReader(text), int64(len(text)), nil)
	must(b.t, err)
}

func (b *bucket) remove(key string) {
	b.t.Helper()
	_, err := b.back.DeleteObject("docs", key)
	must(b.t, err)
}

// A bucket is mirrored below a prefix, by several pages of its listing, and then only what changes.
func TestS3FollowsABucket(t *testing.T) {
	b := newBucket(t)
	for i := range 1010 {
		b.put(fmt.Sprintf("team/%04d.md", i), fmt.Sprint("text ", i))
	}
	b.put("other/x.md", "other")
	b.put("team/folder/", "")
	b.put("team/a b/ü.md", "umlaut")
	b.put("team/../../up.md", "up")
	b.put("team/film.mp4", "film")
	b.Prefix, b.Wanted = "team/", func(file string) bool { return path.Ext(file) == ".md" }
	m := mirrorOf(t, b.S3)
	r := fetch(t, b.S3, m)
	if r.Fetched != 1012 || r.Failed != 0 || !strings.Contains(strings.Join(r.Notes, ""), "1 objects are of no format") {
		t.Errorf("the report is %+v", r)
	}
	files := filesOf(t, m)
	if len(files) != 1012 || files["0007.md"] != "text 7" || files["a b/ü.md"] != "umlaut" || files["%2e2e/%2e2e/up.md"] != "up" {
		t.Errorf("the mirror has %d files", len(files))
	}
	b.put("team/0007.md", "text X")
	b.remove("team/0008.md")
	if r = fetch(t, b.S3, m); r.Fetched != 1 || r.Removed != 1 || r.Unchanged != 1010 {
		t.Errorf("after a change the report is %+v", r)
	}
	if text := filesOf(t, m)["0007.md"]; text != "text X" {
		t.Errorf("0007.md is %q", text)
	}
}

// A listing that fails, contradicts itself or is none removes nothing.
func TestS3ListingThatLies(t *testing.T) {
	b := newBucket(t)
	b.put("a.md", "a")
	b.put("b.md", "b")
	m := mirrorOf(t, b.S3)
	fetch(t, b.S3, m)
	b.Limits = remote.Limits{Idle: 200 * time.Millisecond, Files: 50}
	result := func(inner string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, `<ListBucketResult><Name>docs</Name>`+inner+`</ListBucketResult>`)
		}
	}
	object := func(key string, size int) string {
		return fmt.Sprintf(`<Contents><Key>%s</Key><ETag>"x"</ETag><Size>%d</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>`, key, size)
	}
	n := 0
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, q *http.Request)
		want   string
	}{
		"denied": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>")
		}, "AccessDenied"},
		"500":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "500"},
		"page":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html></html>") }, "no listing"},
		"empty": {func(http.ResponseWriter, *http.Request) {}, ""},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult><Name>docs</Name>")
		}, "EOF"},
		"hang":     {func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "sent nothing"},
		"reset":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "closed the connection"},
		"no token": {result(object("a.md", 1) + "<IsTruncated>true</IsTruncated>"), ""},
		"circle":   {result(object("a.md", 1) + "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"), `it has "a.md" twice`},
		"endless": {func(w http.ResponseWriter, q *http.Request) {
			n++
			result(object(fmt.Sprint(n), 1)+fmt.Sprintf("<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", n))(w, q)
		}, "more than 50 objects"},
		"negative": {result(object("a.md", -1)), "was not asked for"},
		"huge":     {result(object("a.md", 1<<25) + object("b.md", 1<<25) + "<x>" + strings.Repeat("y", 33<<20)), "more than 32 MiB"},
		"too large": {func(w http.ResponseWriter, q *http.Request) {
			var all strings.Builder
			for i := range 40 {
				all.WriteString(object(fmt.Sprint(i), 60<<20))
			}
			result(all.String())(w, q)
		}, "the bucket has more than 2 GiB"},
	} {
		b.fail(func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Query().Has("list-type") {
				c.answer(w, q)
				return true
			}
			return false
		})
		if _, err := b.Fetch(t.Context(), m, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		holds(t, m, "a.md", "b.md")
	}
}

// An object that fails stays as it was, and is said; the others are fetched.
func TestS3ObjectsThatFail(t *testing.T) {
	b := newBucket(t)
	b.put("a.md", "a")
	b.put("b.md", "b")
	m := mirrorOf(t, b.S3)
	fetch(t, b.S3, m)
	b.Limits = remote.Limits{Idle: 200 * time.Millisecond}
	b.put("a.md", "a2")
	for name, answer := range map[string]func(w http.ResponseWriter, q *http.Request){
		"500":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"404":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"hang":  func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, "a")
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			for {
				if _, err := io.WriteString(w, strings.Repeat("endless", 1000)); err != nil {
					return
				}
			}
		},
	} {
		b.fail(func(w http.ResponseWriter, q *http.Request) bool {
			if strings.HasSuffix(q.URL.Path, "/a.md") {
				answer(w, q)
				return true
			}
			return false
		})
		r := fetch(t, b.S3, m)
		if r.Failed != 1 || r.Failures[0].Path != "a.md" || strings.Contains(r.Problem(), "s3cret") {
			t.Errorf("%s: the report is %+v", name, r)
		}
		if text := filesOf(t, m)["a.md"]; text != "a" {
			t.Errorf("%s: a.md is %q", name, text)
		}
	}
	b.fault.Store(nil)
	fetch(t, b.S3, m)
	if text := filesOf(t, m)["a.md"]; text != "a2" {
		t.Errorf("a.md is %q", text)
	}
}

func TestS3PrivateAddresses(t *testing.T) {
	b := newBucket(t)
	b.Network = remote.Network{}
	failing(t, b.S3, mirrorOf(t, b.S3), "is a private address")
}

// A fetch ends when it is told to, and says so.
func TestS3EndsWhenToldTo(t *testing.T) {
	b := newBucket(t)
	b.put("a.md", "a")
	ctx, cancel := context.WithCancel(t.Context())
	b.fail(func(_ http.ResponseWriter, q *http.Request) bool { cancel(); <-q.Context().Done(); return true })
	if _, err := b.Fetch(ctx, mirrorOf(t, b.S3), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("fetch: %v", err)
	}
}
