package vectorstore_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"go.uber.org/goleak"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/retrievaltest"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/tags"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

func neutralise(text string) string {
	clean, _ := tags.Vocabulary{}.Neutralise(text, false)
	return clean
}

// open returns a base over an API; it is closed when the test ends.
func open(t *testing.T, api string, change func(*vectorstore.Options)) *vectorstore.Base {
	t.Helper()
	u, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	o := vectorstore.Options{Knowledge: "legal", Store: "vs_1", BaseURL: u, Neutralise: neutralise}
	if change != nil {
		change(&o)
	}
	b := vectorstore.Open(o)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// A service is an API that a test can break.
type service struct {
	*httptest.Server
	next http.Handler

	mu       sync.Mutex
	fault    retrievaltest.Fault
	requests []*http.Request
}

func newService(t *testing.T, next http.Handler) *service {
	t.Helper()
	s := &service{next: next}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) Break(f retrievaltest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	fault := s.fault
	s.mu.Unlock()
	switch fault {
	case retrievaltest.Down:
		panic(http.ErrAbortHandler)
	case retrievaltest.Slow:
		// The server notices that a client has left only once the body has been read.
		_, _ = r.Body.Read(make([]byte, 1<<16))
		_, _ = r.Body.Read(make([]byte, 1))
		<-r.Context().Done()
	case retrievaltest.Failing:
		http.Error(w, `{"error":{"message":"sorry","code":"server_error"}}`, http.StatusInternalServerError)
	case retrievaltest.Garbled:
		fmt.Fprint(w, "<html>no</html>")
	default:
		s.next.ServeHTTP(w, r)
	}
}

// A stub is an API like OpenAI's, with whole documents that are scored by the number of words that
// they share with the question.
type stub []retrievaltest.Document

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(w) > 3 {
			set[w] = true
		}
	}
	return set
}

type stubResult struct {
	FileID     string         `json:"file_id"`
	Filename   string         `json:"filename"`
	Score      float64        `json:"score"`
	Attributes map[string]any `json:"attributes"`
	Content    []stubText     `json:"content"`
}

type stubText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (s stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/files") {
		var data []map[string]any
		for _, d := range s {
			data = append(data, map[string]any{"id": d.ID, "object": "vector_store.file", "attributes": d.Attributes})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "has_more": false})
		return
	}
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"id":"vs_1","object":"vector_store","created_at":1,"last_active_at":2,"name":"x","status":"completed","usage_bytes":9,"file_counts":{"in_progress":0,"completed":%d,"failed":0,"cancelled":0,"total":%d},"metadata":{}}`, len(s), len(s))
		return
	}
	var q struct {
		Query         string `json:"query"`
		MaxNumResults int    `json:"max_num_results"`
		Filters       *filter.Filter
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/vector_stores/vs_1/search" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	asked := words(q.Query)
	var data []stubResult
	for _, d := range s {
		attributes := map[string]any{"path": d.ID}
		maps.Copy(attributes, d.Attributes)
		if !q.Filters.Match(attributes) {
			continue
		}
		held, n := words(d.Text), 0
		for word := range asked {
			if held[word] {
				n++
			}
		}
		if n > 0 {
			data = append(data, stubResult{d.ID, d.ID, float64(n) / float64(len(asked)), attributes, []stubText{{"text", d.Text}}})
		}
	}
	slices.SortStableFunc(data, func(a, b stubResult) int { return cmp.Compare(b.Score, a.Score) })
	data = data[:min(len(data), q.MaxNumResults)]
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "vector_store.search_results.page", "search_query": []string{q.Query}, "data": data, "has_more": false, "next_page": nil})
}

func query(text string) retrieval.Query {
	return retrieval.Query{Text: text, Settings: retrieval.DefaultSettings()}
}
