package opensearch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/opensearch"
)

// request sends a request to the shared server.
func request(t testing.TB, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address(t).String()+path, bytes.NewBufferString(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	must(t, err)
	if resp.StatusCode/100 != 2 || strings.Contains(answer.String(), `"errors":true`) {
		t.Fatalf("%s %s: %s", method, path, answer.String())
	}
}

// vectorField returns the definition of a field of 4 dimensions.
func vectorField(t testing.TB) string {
	if isElasticsearch(t) {
		return `{"type":"dense_vector","dims":4,"index":true,"similarity":"cosine"}`
	}
	return `{"type":"knn_vector","dimension":4,"method":{"name":"hnsw","engine":"lucene","space_type":"cosinesimil"}}`
}

// vectorSetting returns what an index with vectors needs besides their field.
func vectorSetting(t testing.TB) string {
	if isElasticsearch(t) {
		return ""
	}
	return `"settings":{"index":{"knn":true}},`
}

// others creates an index as others write it, and returns its name.
func others(t testing.TB) string {
	t.Helper()
	name := namespace(t)
	request(t, "PUT", "/"+name, `{`+vectorSetting(t)+`"mappings":{"properties":{
		"body":{"type":"text","analyzer":"english"},"title":{"type":"text"},"page":{"type":"keyword"},
		"year":{"type":"integer"},"final":{"type":"boolean"},"changed":{"type":"date"},
		"meta":{"properties":{"lang":{"type":"keyword"},"topic":{"type":"text","fields":{"raw":{"type":"keyword"}}},"note":{"type":"text"}}},
		"emb":`+vectorField(t)+`}}}`)
	var bulk bytes.Buffer
	for i, row := range []map[string]any{
		{"body": "Parental leave lasts twelve weeks.", "title": "Leave", "page": "https://x/1", "year": 2023, "final": true, "meta": map[string]any{"lang": "en", "topic": "hr"}, "emb": unit(1, 4)},
		{"body": "Passwords have sixteen letters.", "title": "Passwords", "page": "https://x/2", "year": 2024, "final": false, "meta": map[string]any{"lang": "de", "topic": "it"}, "emb": unit(2, 4)},
		{"body": nil, "title": "No text", "year": 2024, "emb": unit(1, 4)},
		{"body": "Leaves fall from trees in autumn, and parents rake them.", "year": 2022, "meta": map[string]any{"lang": []string{"en", "fr"}, "nested": map[string]any{"x": 1}}},
	} {
		row["changed"] = fmt.Sprintf("2024-01-0%d", i+1)
		text, err := json.Marshal(row)
		must(t, err)
		fmt.Fprintf(&bulk, "{\"index\":{\"_id\":\"row %d\"}}\n%s\n", i, text)
	}
	request(t, "POST", "/"+name+"/_bulk?refresh=true", bulk.String())
	return name
}

func mappingOf(index string) engine.Mapping {
	return engine.Mapping{
		Table: index, ID: "_id", Text: "body", Title: "title", URL: "page", Date: "changed", Attributes: "meta",
		AttributeColumns: map[string]string{"year": "year", "final": "final"},
		Vector:           "emb", Space: "m/4", Dimensions: 4, Generation: "changed",
	}
}

func openMapped(t testing.TB, m engine.Mapping) *opensearch.Server {
	t.Helper()
	s, err := opensearch.Open(opensearch.Options{
		Connection: engine.Connection{URL: []*url.URL{address(t)}, Timeout: time.Minute}, Mappings: map[string]engine.Mapping{"m": m},
	})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestIndexOfOthersIsSearched(t *testing.T) {
	s := openMapped(t, mappingOf(others(t)))
	must(t, s.Check(t.Context(), "m"))
	f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"m"}, Question: "parent leave", Vector: unit(1, 4), Depth: 10})
	must(t, err)
	if len(f.Candidates) != 3 || f.Counts != nil {
		t.Fatalf("%d candidates, counts %v", len(f.Candidates), f.Counts)
	}
	first := f.Candidates[slices.IndexFunc(f.Candidates, func(c engine.Candidate) bool { return c.Doc == "row 0" })]
	if first.ByWords == 0 || first.ByVector == 0 || first.Cosine < .9999 || first.Name != "Leave" || first.Chunks != 1 ||
		first.Attributes != `{"date":"2024-01-01","final":true,"lang":"en","topic":"hr","url":"https://x/1","year":2023}` {
		t.Errorf("candidate %+v", first)
	}
	if st := f.States[0]; st.Chunks != 4 || st.Generation == "" || st.Space != "m/4" || st.Dimensions != 4 {
		t.Errorf("state %+v", st)
	}
	states, err := s.States(t.Context(), []string{"m"})
	if err != nil || states[0] != f.States[0] {
		t.Errorf("states %+v, %v", states, err)
	}
	sample, err := s.Sample(t.Context(), "m", 10)
	if err != nil || len(sample) != 3 || sample[0].Text == "" {
		t.Errorf("sample %+v, %v", sample, err)
	}
	passage, err := s.Passage(t.Context(), "m", "row 1", 0, 3, nil, "")
	if err != nil || len(passage) != 1 || passage[0].Name != "Passwords" {
		t.Errorf("passage %+v, %v", passage, err)
	}
}

func TestGenerationOfAnIndexOfOthersChangesWithIt(t *testing.T) {
	index := others(t)
	s := openMapped(t, mappingOf(index))
	generation := func() string {
		states, err := s.States(t.Context(), []string{"m"})
		must(t, err)
		return states[0].Generation
	}
	before := generation()
	if generation() != before {
		t.Error("the generation changed by itself")
	}
	request(t, "POST", "/"+index+"/_update/row%201?refresh=true", `{"doc":{"changed":"2025-01-01"}}`)
	if generation() == before {
		t.Error("the generation did not change")
	}
}

func TestFiltersOfAnIndexOfOthers(t *testing.T) {
	s := openMapped(t, mappingOf(others(t)))
	must(t, s.Check(t.Context(), "m"))
	for text, want := range map[string][]string{
		`{"type":"eq","key":"lang","value":"en"}`:                                                                   {"row 0", "row 3"},
		`{"type":"ne","key":"lang","value":"en"}`:                                                                   {"row 1"},
		`{"type":"eq","key":"topic","value":"hr"}`:                                                                  {"row 0"},
		`{"type":"eq","key":"year","value":2024}`:                                                                   {"row 1"},
		`{"type":"eq","key":"year","value":"2024"}`:                                                                 nil,
		`{"type":"gte","key":"year","value":2023}`:                                                                  {"row 0", "row 1"},
		`{"type":"eq","key":"final","value":true}`:                                                                  {"row 0"},
		`{"type":"in","key":"final","value":[true,"true"]}`:                                                         {"row 0"},
		`{"type":"prefix","key":"url","value":"https://x/2"}`:                                                       {"row 1"},
		`{"type":"gte","key":"date","value":"2024-01-02"}`:                                                          {"row 1", "row 3"},
		`{"type":"nin","key":"year","value":[2022,2023]}`:                                                           {"row 1"},
		`{"type":"or","filters":[{"type":"lt","key":"year","value":2023},{"type":"eq","key":"lang","value":"de"}]}`: {"row 1", "row 3"},
	} {
		f, err := filter.Parse([]byte(text))
		must(t, err)
		if err := s.Filterable("m", f); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		res, err := s.Search(t.Context(), &engine.Search{Bases: []string{"m"}, Question: "leave passwords autumn leaves", Depth: 10, Filter: f})
		must(t, err)
		var got []string
		for _, c := range res.Candidates {
			got = append(got, c.Doc)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"type":"eq","key":"nothing","value":"x"}`:       `no field for attribute "nothing"`,
		`{"type":"eq","key":"note","value":"x"}`:          "field meta.note of type text cannot be compared by eq",
		`{"type":"prefix","key":"date","value":"2024"}`:   "field changed of type date cannot be compared by prefix",
		`{"type":"eq","key":"date","value":"2024-01-01"}`: "field changed of type date cannot be compared by eq",
	} {
		f, err := filter.Parse([]byte(text))
		must(t, err)
		if err := s.Filterable("m", f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if _, err := s.Search(t.Context(), &engine.Search{Bases: []string{"m"}, Question: "leave", Depth: 10, Filter: f}); err == nil {
			t.Errorf("%s was dropped", text)
		}
	}
}

func TestCheckNamesWhatAnIndexLacks(t *testing.T) {
	index := others(t)
	for want, change := range map[string]func(*engine.Mapping){
		"has no field chapter":                           func(m *engine.Mapping) { m.Section = "chapter" },
		"field emb has 4 dimensions, its model has 1536": func(m *engine.Mapping) { m.Dimensions = 1536 },
		"field page is of type keyword, not a vector":    func(m *engine.Mapping) { m.Vector = "page" },
		"field page is of type keyword; only a text":     func(m *engine.Mapping) { m.Lexemes = "page" },
		"field year is of type integer; only a keyword":  func(m *engine.Mapping) { m.Document, m.Ordinal = "year", "year" },
		"field page is of type keyword, not a number":    func(m *engine.Mapping) { m.Document, m.Ordinal = "page", "page" },
		"no such knowledge base":                         func(m *engine.Mapping) { m.Table = "absent" },
	} {
		m := mappingOf(index)
		change(&m)
		if err := openMapped(t, m).Check(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	m := mappingOf("absent")
	if err := openMapped(t, m).Check(t.Context(), "m"); !errors.Is(err, engine.ErrNoBase) {
		t.Error(err)
	}
	if err := openMapped(t, mappingOf(index)).Init(t.Context(), "m"); err == nil {
		t.Error("an index of others was written to")
	}
}

// Each row of an index has attributes of its own, so a filter applies to neighbours, too.
func TestNeighboursInAnIndexOfOthers(t *testing.T) {
	index := namespace(t)
	request(t, "PUT", "/"+index, `{"mappings":{"properties":{"parent":{"type":"keyword"},"part":{"type":"integer"},
		"body":{"type":"text"},"audience":{"type":"keyword"}}}}`)
	request(t, "POST", "/"+index+"/_bulk?refresh=true", `{"index":{"_id":"1"}}
{"parent":"h","part":1,"body":"parental leave","audience":"all"}
{"index":{"_id":"2"}}
{"parent":"h","part":2,"body":"secret salaries","audience":"board"}
{"index":{"_id":"3"}}
{"parent":"h","part":0,"body":"secret bonus","audience":"board"}
{"index":{"_id":"4"}}
{"parent":"other","part":2,"body":"of another document","audience":"all"}
`)
	s := openMapped(t, engine.Mapping{
		Table: index, ID: "_id", Text: "body", Document: "parent", Ordinal: "part", AttributeColumns: map[string]string{"audience": "audience"},
	})
	must(t, s.Check(t.Context(), "m"))
	q := &engine.Search{Bases: []string{"m"}, Question: "parental", Depth: 5, Neighbours: 5}
	f, err := s.Search(t.Context(), q)
	must(t, err)
	if c := f.Candidates; len(c) != 1 || c[0].Before != "secret bonus" || c[0].After != "secret salaries" {
		t.Errorf("without a filter: %+v", c)
	}
	q.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: "all"}
	f, err = s.Search(t.Context(), q)
	must(t, err)
	if c := f.Candidates; len(c) != 1 || c[0].Before != "" || c[0].After != "" {
		t.Errorf("with a filter: %+v", c)
	}
}

// Of a long question the first words are searched, as servers refuse more than 1024.
func TestLongQuestions(t *testing.T) {
	s := openMapped(t, mappingOf(others(t)))
	var words, ideographs strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&words, " word%d-x%d", i, i)
		ideographs.WriteRune(rune(0x4e00 + i))
	}
	for _, more := range []string{words.String(), ideographs.String()} {
		f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"m"}, Question: "parental " + more, Depth: 3})
		must(t, err)
		if len(f.Candidates) == 0 {
			t.Errorf("%.30q…: nothing found", more)
		}
	}
}

// A filter that the server refuses is not a failure of the server.
func TestRefusedFilter(t *testing.T) {
	s := openMapped(t, mappingOf(others(t)))
	f := &filter.Filter{Type: filter.Gte, Key: "date", Value: "no date"}
	_, err := s.Search(t.Context(), &engine.Search{Bases: []string{"m"}, Question: "parental", Depth: 3, Filter: f})
	if !errors.Is(err, engine.ErrRefused) {
		t.Errorf("got %v", err)
	}
}
