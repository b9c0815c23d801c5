package vectorstore_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/vectorstore"
)

// A jointService is a Sidenote with several bases. A test can change it.
type jointService struct {
	mu      sync.Mutex
	old     bool     // it does not know joint searches any more
	reports bool     // it says that it takes joint searches
	bases   []string // that it has
	answer  string   // replaces the fields of the answer beside bases and data
	paths   []string // of searches
	bodies  []string
	keys    []string
}

func (s *jointService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := strings.Split(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/vector_stores/"), "/search"), ",")
	known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(s.bases, id) })
	search := strings.HasSuffix(r.URL.Path, "/search")
	if search {
		body, _ := io.ReadAll(r.Body)
		s.paths, s.bodies, s.keys = append(s.paths, r.URL.Path), append(s.bodies, string(body)), append(s.keys, r.Header.Get("Authorization"))
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case len(known) == 0 || s.old && len(ids) > 1:
		http.Error(w, `{"error":{"code":"not_found"}}`, http.StatusNotFound)
	case !search:
		metadata := map[string]string{"sidenote_generation": "ab"}
		if s.reports {
			metadata["sidenote_joint"] = "1"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": ids[0], "metadata": metadata})
	default:
		var data, bases []string
		for i, id := range known {
			bases = append(bases, fmt.Sprintf(`{"kb_id":%q,"generation":"ab"}`, id))
			data = append(data, fmt.Sprintf(`{"file_id":"%s.md","score":0.5,"content":[{"type":"text","text":"about %s"}],"attributes":{"sidenote_knowledge":%q,"sidenote_chunk":0,`+
				`"sidenote_floor":2,"sidenote_score":%d,"sidenote_generation":"ab","sidenote_date":"2026-02-01","price":7}}`, id, id, id, 9-i))
		}
		fmt.Fprintf(w, `{"data":[%s],"sidenote":{"bases":[%s]%s}}`, strings.Join(data, ","), strings.Join(bases, ","), s.answer)
	}
}

// change changes the service.
func (s *jointService) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// jointly opens bases of a service, each called here as there with a prefix.
func jointly(t *testing.T, s *jointService, ids ...string) (*vectorstore.Stores, map[string]*vectorstore.Base, map[string]retrieval.Reason) {
	t.Helper()
	server := newService(t, s)
	bases, told := map[string]*vectorstore.Base{}, map[string]retrieval.Reason{}
	for _, id := range ids {
		b := open(t, server.URL, func(o *vectorstore.Options) {
			o.Knowledge, o.Store, o.Key = "my-"+id, id, func() string { return "secret" }
		})
		<-b.FirstRead()
		bases["my-"+id] = b
	}
	return &vectorstore.Stores{Base: func(id string) *vectorstore.Base { return bases[id] }, Searched: func(id string, reason retrieval.Reason) { told[id] = reason }}, bases, told
}

func askingOf(bases map[string]*vectorstore.Base, ids ...string) retrieval.Query {
	q := query("How much is it?")
	q.Bases = nil
	for _, id := range ids {
		q.Bases = append(q.Bases, bases[id].Ref())
	}
	return q
}

// Several bases at one central Sidenote are searched by one call, which tells what the engine there
// needs to rank as for its own requests, and returns all that selection needs.
func TestJointSearch(t *testing.T) {
	s := &jointService{reports: true, bases: []string{"a", "b"}, answer: `,"provisional":true,"degraded":"embed","embed":"timeout"`}
	stores, bases, told := jointly(t, s, "a", "b")
	if a, b := bases["my-a"].Central(), bases["my-b"].Central(); a == "" || a != b {
		t.Fatalf("%q and %q", a, b)
	}
	q := askingOf(bases, "my-a", "my-b")
	q.Previous = []retrieval.Turn{{Text: "the bicycle", Weight: .5}}
	q.Settings.DenseWeight, q.Settings.Fusion = .25, retrieval.FusionRanks
	res, err := stores.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := []retrieval.Source{
		{Type: "rag", Knowledge: "my-a", Doc: "a.md", Name: "a.md", Text: "about a", Score: 9, Attributes: `{"sidenote_date":"2026-02-01"}`},
		{Type: "rag", Knowledge: "my-b", Doc: "b.md", Name: "b.md", Text: "about b", Score: 8, Attributes: `{"sidenote_date":"2026-02-01"}`},
	}
	if !slices.Equal(res.Sources, want) || res.Floor != 2 || !slices.Equal(res.Bases, q.Bases) || res.Reason != "" || res.Partial {
		t.Errorf("%+v", res)
	}
	if !res.Provisional || res.Degraded != retrieval.StageEmbed || res.EmbedFailure != retrieval.EmbedTimeout {
		t.Errorf("%v, %q, %q", res.Provisional, res.Degraded, res.EmbedFailure)
	}
	if got := fmt.Sprint(s.paths, s.keys); got != "[/v1/vector_stores/a,b/search] [Bearer secret]" {
		t.Error(got)
	}
	const body = `{"query":"How much is it?","max_num_results":50,"sidenote":{"turns":[{"text":"the bicycle","weight":0.5}],"dense_weight":0.25,"fusion":"rrf"}}`
	if s.bodies[0] != body || fmt.Sprint(told) != "map[my-a: my-b:]" {
		t.Errorf("%s, %v", s.bodies[0], told)
	}
}

// A base that the central Sidenote has lost does not silence the others; the result is partial.
func TestJointSearchWithoutABase(t *testing.T) {
	s := &jointService{reports: true, bases: []string{"a", "b", "c"}}
	stores, bases, told := jointly(t, s, "a", "b", "c")
	q := askingOf(bases, "my-a", "my-b", "my-c")
	for _, lost := range []string{"a", "b", "c"} {
		s.change(func() {
			s.bases = slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == lost })
		})
		res, err := stores.Retrieve(t.Context(), q)
		if err != nil || len(res.Sources) != 2 || len(res.Bases) != 2 || !res.Partial || res.Reason != retrieval.ReasonError {
			t.Errorf("without %s: %+v, %v", lost, res, err)
		}
		if told["my-"+lost] != retrieval.ReasonError || len(bases["my-"+lost].Trouble()) == 0 {
			t.Errorf("without %s: %v, trouble %q", lost, told, bases["my-"+lost].Trouble())
		}
		for id, b := range bases {
			if id != "my-"+lost && (told[id] != retrieval.ReasonNone || len(b.Trouble()) > 0) {
				t.Errorf("without %s: %s: %q, trouble %q", lost, id, told[id], b.Trouble())
			}
		}
	}
	s.change(func() { s.bases = nil })
	if res, err := stores.Retrieve(t.Context(), q); err == nil || res.Reason != retrieval.ReasonError {
		t.Errorf("%+v, %v", res, err)
	}
}

// Bases whose Sidenote does not report joint searches, or stops to answer them, are asked one by
// one.
func TestBasesOfAnOlderSidenote(t *testing.T) {
	s := &jointService{bases: []string{"a", "b"}}
	_, bases, _ := jointly(t, s, "a", "b")
	if bases["my-a"].Central() != "" {
		t.Error("joint without saying so")
	}
	s = &jointService{reports: true, bases: []string{"a", "b"}}
	stores, bases, _ := jointly(t, s, "a", "b")
	s.change(func() { s.old = true })
	if res, err := stores.Retrieve(t.Context(), askingOf(bases, "my-a", "my-b")); err == nil || res.Reason != retrieval.ReasonError {
		t.Errorf("%+v, %v", res, err)
	}
	for id, b := range bases {
		if b.Central() != "" {
			t.Errorf("%s is still joint", id)
		}
		if res, err := stores.Retrieve(t.Context(), askingOf(bases, id)); err != nil || len(res.Sources) != 1 {
			t.Errorf("%s: %+v, %v", id, res, err)
		}
	}
}

// Bases are joint only with others that the same credential reads at the same address.
func TestCentral(t *testing.T) {
	s := newService(t, &jointService{reports: true, bases: []string{"a"}})
	central := func(key string, host string) string {
		b := open(t, s.URL, func(o *vectorstore.Options) {
			o.Knowledge, o.Store, o.Key = "a", "a", func() string { return key }
			if host != "" {
				o.BaseURL = &url.URL{Scheme: "http", Host: strings.Replace(o.BaseURL.Host, "127.0.0.1", host, 1)}
			}
		})
		<-b.FirstRead()
		return b.Central()
	}
	one := central("k1", "")
	if one == "" || central("k1", "") != one || central("k2", "") == one || central("k1", "localhost") == one {
		t.Error("another credential or address is joint, or the same is not")
	}
}

// Words of an answer that are in no closed list are dropped, and so are results of bases that were
// not asked, and sketches of a wrong length.
func TestStrangeJointAnswers(t *testing.T) {
	s := &jointService{reports: true, bases: []string{"a", "b"}, answer: `,"reason":"pwned\n","degraded":"everything","embed":"never"`}
	stores, bases, _ := jointly(t, s, "a", "b")
	res, err := stores.Retrieve(t.Context(), askingOf(bases, "my-a", "my-b"))
	if err != nil || res.Reason != "" || res.Degraded != "" || res.EmbedFailure != "" || len(res.Sources) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	s.change(func() {
		s.answer = `,"bases":[{"kb_id":"a","generation":"ab"},{"kb_id":"z","generation":"ab"},{"kb_id":"b","generation":"../"}]`
	})
	res, err = stores.Retrieve(t.Context(), askingOf(bases, "my-a", "my-b"))
	if err != nil || len(res.Sources) != 1 || res.Sources[0].Knowledge != "my-a" || !res.Partial {
		t.Errorf("%+v, %v", res, err)
	}
}
