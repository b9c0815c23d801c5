package vectorstore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/vectorstore"
)

func eq(key string, value any) *filter.Filter {
	return &filter.Filter{Type: filter.Eq, Key: key, Value: value}
}

// oblivious is an API that ignores the query and returns one text for each of some attributes.
func oblivious(t *testing.T, attributes ...string) http.HandlerFunc {
	t.Helper()
	data := make([]string, len(attributes))
	for i, a := range attributes {
		data[i] = fmt.Sprintf(`{"file_id":"%d","attributes":%s,"content":[{"type":"text","text":"x"}],"score":0.5}`, i, a)
	}
	return answering(200, "application/json", `{"id":"vs_1","data":[`+strings.Join(data, ",")+`]}`)
}

// If an API ignores filters, only results that match by their attributes are used.
func TestFilterIsNotLeftToOthers(t *testing.T) {
	f := func(filter *filter.Filter, attributes string, want bool) {
		t.Helper()
		b := open(t, newService(t, oblivious(t, attributes)).URL, nil)
		q := query("leave")
		q.Filter = filter
		res, err := b.Retrieve(t.Context(), q)
		if err != nil || (len(res.Sources) == 1) != want || want == (res.Reason == retrieval.ReasonNoMatch) {
			t.Errorf("%s of %s: %+v, %v; want %v", filter, attributes, res, err, want)
		}
		if trouble := b.Trouble(); (len(trouble) == 0) != want {
			t.Errorf("%s of %s: trouble %q", filter, attributes, trouble)
		}
	}
	ne := func(value any) *filter.Filter {
		return &filter.Filter{Type: filter.Ne, Key: "a", Value: value}
	}
	f(nil, `null`, true)
	f(eq("a", "x"), `{"a":"x","b":{}}`, true)
	f(eq("a", "x"), `{"a":"y"}`, false)
	f(eq("a", "x"), `{"a":["y","x"]}`, true)
	f(eq("a", 2.0), `{"a":2}`, true)
	f(eq("a", 2.0), `{"a":"2"}`, false)
	f(eq("a", true), `{"a":true}`, true)
	f(eq("a", "x"), `{}`, false)
	f(eq("a", "x"), `null`, false)
	f(ne("x"), `{"a":"y"}`, true)
	f(ne("x"), `{"a":"x"}`, false)
	f(ne("x"), `{"b":"x"}`, true)
	f(ne("x"), `{"a":null}`, true)
	f(ne("x"), `{"a":[]}`, true)
	f(ne("x"), `{}`, false)            // it has none, or they were omitted
	f(ne("x"), `null`, false)          //
	f(ne("x"), `{"a":{"x":1}}`, false) // unsupported type
	f(ne("x"), `{"a":["y",1]}`, false)
	f(ne("x"), `{"a":1e999}`, false)
}

// An API that ignores filters is reported once.
func TestStrayingIsTold(t *testing.T) {
	var mu sync.Mutex
	var told []string
	b := open(t, newService(t, oblivious(t, `{"a":"x"}`, `{"a":"y"}`, `{}`)).URL, func(o *vectorstore.Options) {
		o.Changed = func(line string, bad bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(bad, " ", line))
		}
	})
	<-b.FirstRead()
	q := query("leave")
	if res, err := b.Retrieve(t.Context(), q); err != nil || len(res.Sources) != 3 || b.Trouble() != nil {
		t.Errorf("without a filter: %+v, %v, %q", res, err, b.Trouble())
	}
	for _, value := range []string{"x", "y", "z"} {
		q.Filter = eq("a", value)
		if res, err := b.Retrieve(t.Context(), q); err != nil || len(res.Sources) > 1 {
			t.Errorf("%s: %+v, %v", value, res, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !strings.HasPrefix(told[0], "true knowledge legal: vector store vs_1 at 127.0.0.1:") || !strings.Contains(told[0], "ignores filters") {
		t.Errorf("told %q", told)
	}
	if got := b.Trouble(); len(got) != 1 || "true "+got[0] != told[0] {
		t.Errorf("trouble %q", got)
	}
}

// A filter is sent unchanged; an API that does not support a part of it refuses the search, and
// nothing is found.
func TestFilterIsSent(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Filters json.RawMessage }
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			mu.Lock()
			sent = append(sent, string(q.Filters))
			mu.Unlock()
		}
		if strings.Contains(string(q.Filters), "prefix") {
			answering(400, "application/json", `{"error":{"message":"no","code":"invalid_value"}}`)(w, r)
			return
		}
		answering(200, "application/json", `{"id":"vs_1","data":[]}`)(w, r)
	}))
	told := make(chan string, 10)
	b := open(t, s.URL, func(o *vectorstore.Options) { o.Changed = func(line string, bad bool) { told <- line } })
	and := filter.AllOf(eq("b", "<y>"), eq("a", 1.0))
	prefix := &filter.Filter{Type: filter.Prefix, Key: "path", Value: "hr/"}
	for _, f := range []*filter.Filter{nil, prefix, and, prefix} {
		q := query("leave")
		q.Filter = f
		_, err := b.Retrieve(t.Context(), q)
		if (err != nil) != (f == prefix) || err != nil && !strings.Contains(err.Error(), "answered 400 (invalid_value)") {
			t.Errorf("%s: %v", f, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"", prefix.String(), strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(and.String()), prefix.String()}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
	if got := b.Trouble(); len(got) != 1 || !strings.Contains(got[0], "rejects a filter") || len(told) != 1 || <-told != got[0] {
		t.Errorf("trouble %q, and told %d more", got, len(told))
	}
}
