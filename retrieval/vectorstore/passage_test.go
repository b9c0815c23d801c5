package vectorstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/vectorstore"
)

// filing is an API with some files, by their escaped paths; others are not found.
func filing(answers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[strings.TrimPrefix(r.RequestURI, "/v1/vector_stores/vs_1")]
		if !ok {
			answering(404, "application/json", `{"error":{"code":"not_found"}}`)(w, r)
			return
		}
		answering(200, "application/json", body)(w, r)
	}
}

// passageOf returns a passage of a document, and the query of a caller who sees public documents.
func passageOf(doc string, first, end int) (retrieval.Query, retrieval.Passage) {
	everybody := filter.Filter{Type: filter.Eq, Key: "audience", Value: "all"}
	return retrieval.Query{Tenant: "t", Bases: []retrieval.Ref{{Knowledge: "legal"}}, Filter: &everybody}, retrieval.Passage{Knowledge: "legal", Doc: doc, First: first, End: end}
}

// A document is read in the parts of its content, neutralised, with name and section from
// attributes; page by page, and only as far as requested.
func TestPassage(t *testing.T) {
	s := newService(t, filing(map[string]string{
		"/files/file-1":                     `{"id":"file-1","attributes":{"audience":"all","sidenote_name":"Leave\npolicy"}}`,
		"/files/file-1/content":             `{"data":[{"type":"text","text":"one"},{"type":"text","text":"</source> two","sidenote_section":"Parental"},{"type":"image"},{"type":"text","text":" \n"}],"has_more":true,"next_page":"p 2"}`,
		"/files/file-1/content?page=p+2":    `{"data":[{"type":"text","text":"three"}],"has_more":true,"next_page":"p3"}`,
		"/files/file-1/content?page=p3":     `{"data":[],"has_more":false,"next_page":null}`,
		"/files/docs%2Fa%20b.md":            `{"id":"docs/a b.md","filename":"a b.md","attributes":{"audience":"all"}}`,
		"/files/docs%2Fa%20b.md/content":    `{"file_id":"docs/a b.md","content":[{"type":"text","text":"old form"}]}`,
		"/files/endless":                    `{"id":"endless","attributes":{"audience":"all"}}`,
		"/files/endless/content":            `{"data":[{"type":"text","text":"x"}],"has_more":true,"next_page":"again"}`,
		"/files/endless/content?page=again": `{"data":[{"type":"text","text":"x"}],"has_more":true,"next_page":"again"}`,
	}))
	b := open(t, s.URL, nil)
	<-b.FirstRead()
	for _, row := range []struct {
		doc        string
		first, end int
		want       string
	}{
		{"file-1", 0, 9, `0 "Leave policy" "" "one" 1 "Leave policy" "Parental" "[/source> two" 2 "Leave policy" "" "three" `},
		{"file-1", 1, 2, `1 "Leave policy" "Parental" "[/source> two" `},
		{"docs/a b.md", 0, 9, `0 "a b.md" "" "old form" `},
		{"endless", 3, 9, `3 "endless" "" "x" `},
	} {
		q, p := passageOf(row.doc, row.first, row.end)
		list, err := b.Passage(t.Context(), q, p)
		got := ""
		for _, src := range list {
			if src.Knowledge != "legal" || src.Doc != row.doc || src.Type != "rag" {
				t.Errorf("%+v", src)
			}
			got += fmt.Sprintf("%d %q %q %q ", src.Chunk, src.Name, src.Section, src.Text)
		}
		if err != nil || got != row.want {
			t.Errorf("%s %d: %s, %v; want %s", row.doc, row.first, got, err, row.want)
		}
	}
	before := s.count()
	q, p := passageOf("file-1", 0, 2)
	if _, err := b.Passage(t.Context(), q, p); err != nil || s.count() != before+2 {
		t.Errorf("%v, %d requests for the first page", err, s.count()-before)
	}
}

// Long parts are split at suitable places, and nothing is lost.
func TestPassageOfLongParts(t *testing.T) {
	whole := strings.Repeat(strings.Repeat("word ", 500)+"\n\n", 4) + strings.Repeat("é", 5000)
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, newService(t, filing(map[string]string{
		"/files/f": `{"id":"f","attributes":{"audience":"all"}}`, "/files/f/content": `{"data":[{"type":"text","text":` + string(text) + `}]}`,
	})).URL, nil)
	q, p := passageOf("f", 0, 100)
	list, err := b.Passage(t.Context(), q, p)
	all := ""
	for i, src := range list {
		if all += src.Text; len(src.Text) > 4<<10 || src.Chunk != i || i < 4 && len(src.Text) != 2499 {
			t.Errorf("%d: %d bytes", src.Chunk, len(src.Text))
		}
	}
	if fields := strings.Join(strings.Fields(whole), ""); err != nil || len(list) != 7 || strings.Join(strings.Fields(all), "") != fields {
		t.Errorf("%d parts of %d bytes, %v", len(list), len(all), err)
	}
}

// Documents that the caller may not see are not found, their text is not requested, and no id
// leads elsewhere.
func TestPassageHidden(t *testing.T) {
	s := newService(t, filing(map[string]string{
		"/files/secret":         `{"id":"secret","attributes":{"audience":"board"}}`,
		"/files/untold":         `{"id":"untold"}`,
		"/files/other":          `{"id":"file-9","attributes":{"audience":"all"}}`,
		"/files/short":          `{"id":"short","attributes":{"audience":"all"}}`,
		"/files/short/content":  `{"data":[{"type":"text","text":"one"}]}`,
		"/files/secret/content": `{"data":[{"type":"text","text":"Zephyr"}]}`, "/files/untold/content": `{"data":[{"type":"text","text":"Zephyr"}]}`,
	}))
	b := open(t, s.URL, nil)
	<-b.FirstRead()
	for doc, requests := range map[string]int{
		"secret": 1, "untold": 1, "other": 1, "nothere": 1, "": 0, "..": 0, ".": 0, "../../files": 0, "a/../../x": 0, `..\x`: 0, "%2e%2e/x": 0, "%2e%2e%2fx": 0,
		"a\nb": 0, strings.Repeat("x", 600): 0,
	} {
		before := s.count()
		q, p := passageOf(doc, 0, 9)
		if list, err := b.Passage(t.Context(), q, p); len(list) > 0 || !errors.Is(err, retrieval.ErrNoHit) || s.count()-before != requests {
			t.Errorf("%q: %v, %v, %d requests", doc, list, err, s.count()-before)
		}
	}
	q, p := passageOf("short", 1, 9)
	if list, err := b.Passage(t.Context(), q, p); len(list) > 0 || !errors.Is(err, retrieval.ErrNoHit) {
		t.Errorf("behind the end: %v, %v", list, err)
	}
	before := s.count()
	q.Bases[0].Knowledge = "faq"
	if _, err := b.Passage(t.Context(), q, p); !errors.Is(err, retrieval.ErrNoHit) || s.count() != before {
		t.Errorf("of another base: %v", err)
	}
	if lines := b.Trouble(); len(lines) > 0 {
		t.Errorf("trouble %q", lines)
	}
}

// A store that fails is distinguished from one without the file, and one that can only be searched
// is reported once.
func TestPassageFaults(t *testing.T) {
	const secret = "sk-canary"
	huge := `{"data":[{"type":"text","text":"` + strings.Repeat("x", 9<<20) + `"}]}`
	for name, c := range map[string]struct {
		status  int
		body    string
		missing bool
		trouble string
	}{
		"401":        {401, `{"error":{"message":"` + secret + `"}}`, false, "answered 401"},
		"500":        {500, `{}`, false, "answered 500"},
		"huge":       {200, huge, false, "answer is larger than 8 MiB"},
		"wrong form": {200, `{"data":"` + secret + `"}`, false, "answer is not the content of a file"},
		"no data":    {200, `{"error":"` + secret + `"}`, false, "answer is not the content of a file"},
		"a number":   {200, `{"data":[{"text":7}]}`, false, "answer is not the content of a file"},
		"400":        {400, `{}`, true, ""},
		"405":        {405, `{}`, true, "can be searched but not read"},
		"501":        {501, `{}`, true, "can be searched but not read"},
	} {
		s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/content"):
				answering(c.status, "application/json", c.body)(w, r)
			case strings.Contains(r.URL.Path, "/files/"):
				answering(200, "application/json", `{"id":"f","attributes":{"audience":"all"}}`)(w, r)
			default:
				answering(200, "application/json", `{"id":"vs_1","data":[]}`)(w, r)
			}
		}))
		b := open(t, s.URL, func(o *vectorstore.Options) { o.Key = func() string { return secret } })
		<-b.FirstRead()
		q, p := passageOf("f", 0, 9)
		list, err := b.Passage(t.Context(), q, p)
		if len(list) > 0 || errors.Is(err, retrieval.ErrNoHit) != c.missing || errors.Is(err, retrieval.ErrUnavailable) == c.missing {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if text := fmt.Sprint(err, b.Trouble()); strings.Contains(text, secret) || !strings.Contains(text, c.trouble) || (c.trouble == "") != (len(b.Trouble()) == 0) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
