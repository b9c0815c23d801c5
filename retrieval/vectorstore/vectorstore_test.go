package vectorstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/retrievaltest"
	"sidenote/retrieval/vectorstore"
)

// answering is an API that answers each search with status, media type and body.
func answering(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// A bad answer is an error that says what is wrong, briefly and without text from the API.
func TestFaults(t *testing.T) {
	const secret = "sk-canary"
	canary := newService(t, stub(retrievaltest.Documents()))
	huge := `{"data":[{"content":[{"type":"text","text":"` + strings.Repeat("x", 9<<20) + `"}]}]}`
	for name, c := range map[string]struct {
		next http.HandlerFunc
		want string
	}{
		"401":      {answering(401, "application/json", `{"error":{"message":"key `+secret+`","code":"invalid_api_key"}}`), "answered 401 (invalid_api_key)"},
		"401 bare": {answering(401, "text/plain", "who are you? "+secret), "answered 401"},
		"429":      {answering(429, "application/json", `{"error":{"code":429}}`), "answered 429"},
		"500":      {answering(500, "application/json", `{"error":{"code":"`+secret+` with\nlines"}}`), "answered 500"},
		"201":      {answering(201, "application/json", `{"data":[]}`), "answered 201"},
		"204":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "answered 204"},
		"HTML":     {answering(200, "text/html; charset=utf-8", "<html>"+secret), "answered with text/html that is not JSON"},
		"nothing":  {answering(200, "application/json", ""), "answered with application/json that is not JSON"},
		"two":      {answering(200, "application/json", `{"data":[]}{}`), "answered with application/json that is not JSON"},
		"no data":  {answering(200, "application/json", `{"error":"`+secret+`"}`), "answer is not a page of results: it has no data"},
		"a list":   {answering(200, "application/json", `["`+secret+`"]`), "answer is not a page of results: json: cannot unmarshal array"},
		"numbers":  {answering(200, "application/json", `{"data":[{"file_id":7}]}`), "answer is not a page of results: json: cannot unmarshal number"},
		"huge":     {answering(200, "application/json", huge), "answer is larger than 8 MiB"},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"data":[`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "read answer: unexpected EOF"},
		"aborted": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection closed without an answer"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, canary.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, "answered 307 (redirects are not followed)"},
	} {
		s := newService(t, c.next)
		b := open(t, s.URL, func(o *vectorstore.Options) { o.Key = func() string { return secret } })
		res, err := b.Retrieve(t.Context(), query("leave"))
		if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonError || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: reason %q, %v; want %s", name, res.Reason, err, c.want)
		}
		if text := fmt.Sprint(err, b.Trouble()); strings.Contains(text, secret) || strings.Contains(text, "\n") {
			t.Errorf("%s: quotes the answer: %s", name, text)
		}
		if got := b.Trouble(); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: trouble %q, want %s", name, got, c.want)
		}
	}
	if n := canary.count(); n != 0 {
		t.Errorf("%d requests followed a redirect", n)
	}
}

func TestNobodyThere(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	b := open(t, gone.URL, nil)
	<-b.FirstRead()
	res, err := b.Retrieve(t.Context(), query("leave"))
	if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonError {
		t.Errorf("%q, %v", res.Reason, err)
	}
	if got := b.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "knowledge legal: vector store vs_1 at 127.0.0.1:") || !strings.HasSuffix(got[0], ": dial: connect: connection refused") {
		t.Errorf("trouble %q", got)
	}
	if len(b.Ref().Generation) != 64 {
		t.Errorf("generation %q", b.Ref().Generation)
	}
}

// The key is sent to the API's own address, with every request, and the question is sent
// unchanged.
func TestRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		mu.Lock()
		seen = append(seen, fmt.Sprintf("%s %s %q %s", r.Method, r.RequestURI, r.Header["Authorization"], body))
		mu.Unlock()
		if _, sent := r.Header["Idempotency-Key"]; sent {
			t.Error("Idempotency-Key was sent")
		}
		answering(200, "application/json", `{"id":"x","data":[]}`)(w, r)
	}))
	f := func(path, store, want string, change func(*retrieval.Query)) {
		t.Helper()
		b := open(t, s.URL+path, func(o *vectorstore.Options) { o.Store, o.Key = store, func() string { return "sk-1" } })
		<-b.FirstRead()
		q := query("How long?")
		if change != nil {
			change(&q)
		}
		res, err := b.Retrieve(t.Context(), q)
		if err != nil || res.Reason != retrieval.ReasonNoMatch {
			t.Errorf("%q, %v", res.Reason, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if got := seen[len(seen)-1]; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	f("", "vs_1", `POST /v1/vector_stores/vs_1/search ["Bearer sk-1"] {"query":"How long?","max_num_results":50}`, nil)
	f("/v1/", "a b/c", `POST /v1/vector_stores/a%20b%2Fc/search ["Bearer sk-1"] {"query":"How long?","max_num_results":50}`, nil)
	f("/openai", "vs_1", `POST /openai/v1/vector_stores/vs_1/search ["Bearer sk-1"] {"query":"Leave?\nParental leave?\nHow long?","max_num_results":7}`, func(q *retrieval.Query) {
		q.Previous, q.Settings.NumCandidates = []retrieval.Turn{{Text: "Parental leave?", Weight: 0.5}, {Text: "Leave?", Weight: 0.3}}, 7
	})
	f("", "vs_1", `POST /v1/vector_stores/vs_1/search ["Bearer sk-1"] {"query":"How long?","max_num_results":50}`, func(q *retrieval.Query) {
		q.Tenant, q.Settings.NumCandidates = "acme", 1000
	})
	if seen[0] != `GET /v1/vector_stores/vs_1 ["Bearer sk-1"] ` {
		t.Errorf("look: %s", seen[0])
	}
}

// A search ends by its deadline, and by the default timeout without one.
func TestDeadline(t *testing.T) {
	s := newService(t, nil)
	s.Break(retrievaltest.Slow)
	b := open(t, s.URL, func(o *vectorstore.Options) { o.Timeout = 50 * time.Millisecond })
	res, err := b.Retrieve(t.Context(), query("leave"))
	if !errors.Is(err, context.DeadlineExceeded) || res.Reason != retrieval.ReasonTimeout {
		t.Errorf("own: %q, %v", res.Reason, err)
	}
	if got := b.Trouble(); len(got) != 1 || !strings.Contains(got[0], "no answer in time") {
		t.Errorf("trouble %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b = open(t, s.URL, nil)
	if res, err = b.Retrieve(ctx, query("leave")); !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonTimeout {
		t.Errorf("caller left: %q, %v", res.Reason, err)
	}
	if got := b.Trouble(); got != nil {
		t.Errorf("a caller that left is trouble: %q", got)
	}
}

// Trouble is reported once, and once when it is over; successful searches outweigh a store that
// does not report its state.
func TestTrouble(t *testing.T) {
	docs := stub(retrievaltest.Documents())
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		docs.ServeHTTP(w, r)
	}))
	told := make(chan string, 10)
	b := open(t, s.URL, func(o *vectorstore.Options) {
		o.Changed = func(line string, bad bool) { told <- fmt.Sprint(bad, " ", line) }
	})
	expect := func(want string) {
		t.Helper()
		if got := <-told; !strings.Contains(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	search := func() { _, _ = b.Retrieve(t.Context(), query("parental leave")) }
	expect("true knowledge legal: vector store vs_1 at 127.0.0.1:")
	search()
	expect("false knowledge legal")
	if err := b.Refresh(t.Context()); err == nil || b.Trouble() != nil {
		t.Errorf("a store that tells nothing but can be searched: %v, %q", err, b.Trouble())
	}
	s.Break(retrievaltest.Failing)
	search()
	search()
	expect("answered 500 (server_error)")
	s.Break("")
	search()
	expect("false ")
	if len(told) > 0 {
		t.Errorf("told %q too", <-told)
	}
}
