package explain_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/model"
)

// injected returns the report of a chat with one added source.
func injected(id string) *report.Report {
	res := rewrite.Result{
		Outcome: rewrite.Injected,
		Edits:   []rewrite.Edit{{Name: "inject", Offset: 12, Insert: [][]byte{[]byte("the text of a source")}}},
		Model:   model.Model{Row: "gpt-5*", Encoding: "o200k_base"},
		Retrieval: retrieval.Result{
			Sources: []retrieval.Source{{Text: "the text of a source"}}, Cache: retrieval.CacheMiss, Partial: true,
			Bases: []retrieval.Ref{{Knowledge: "handbook", Generation: "g1"}},
		},
		RetrieveTook: 3 * time.Millisecond, FitTook: 2 * time.Millisecond, EditTook: time.Millisecond,
	}
	res.Ledger = rewrite.Ledger{
		Model: "gpt-5-mini", Encoding: "o200k_base", Exactness: rewrite.Exact, Budget: 2000, Used: 119, Rules: 66, Tags: 20, Text: 33,
		Components: []rewrite.ComponentEntry{}, Edits: res.Edits,
		Sources: []rewrite.SourceEntry{
			{ID: 1, Knowledge: "handbook", Doc: "leave.md", Chunk: 1, Name: "Leave", Section: "Parental leave", Score: 11.2, Relevance: 0.79, Inclusion: rewrite.Included, Tokens: 53},
		},
		Excluded: retrieval.NewExcludedList([]retrieval.Excluded{{Knowledge: "handbook", Doc: "travel.md", Name: "Travel", Score: 1.1, Relevance: 0.27, Reason: retrieval.ExcludedScore, MinScore: 3}}),
	}
	return &report.Report{
		ID: id, Time: time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC), Tenant: "acme", Policy: "base", PolicyHash: "h", Upstream: "openai",
		Route: route.Chat, Mode: "inject", Stream: true, Status: 200, Outcome: rewrite.Injected,
		Calls: []report.Call{{Upstream: "openai", Purpose: report.ToAnswer, Status: 200, Took: 16 * time.Millisecond, PromptTokens: 300}}, Rewrite: res, Client: report.ClientCompleted,
		Overhead: 4 * time.Millisecond, TTFB: 20 * time.Millisecond, Total: time.Second,
	}
}

func find(t *testing.T, r *explain.Ring, id string) *explain.Explanation {
	t.Helper()
	e, have, keep := r.Find(id)
	if e == nil {
		t.Fatalf("%s is not among the %d of %d", id, have, keep)
	}
	return e
}

// An explanation has the data of the report but none of the texts.
func TestExplanation(t *testing.T) {
	r := explain.New(3, explain.BodiesOff)
	r.Record(injected("a"))
	got, err := json.MarshalIndent(find(t, r, "a"), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "object": "explanation",
 "id": "a",
 "time": "2026-11-22T16:00:00Z",
 "tenant": "acme",
 "policy": "base",
 "policy_hash": "h",
 "route": "chat",
 "mode": "inject",
 "model": "gpt-5*",
 "stream": true,
 "outcome": "injected",
 "status": 200,
 "upstream": "openai",
 "calls": [
  {
   "upstream": "openai",
   "purpose": "answer",
   "status": 200,
   "took_ms": 16,
   "prompt_tokens": 300
  }
 ],
 "truncated": false,
 "client": "completed",
 "cache": "miss",
 "partial": true,
 "knowledge": [
  {
   "kb_id": "handbook",
   "generation": "g1"
  }
 ],
 "ledger": {
  "model": "gpt-5-mini",
  "encoding": "o200k_base",
  "exactness": "exact",
  "budget": 2000,
  "used": 119,
  "rules": 66,
  "tags": 20,
  "text": 33,
  "overflow": 0,
  "window": {
   "size": 0,
   "check": "",
   "reserved_output_tokens": 0,
   "request": 0,
   "reserve": 0,
   "room": 0,
   "limits": false
  },
  "components": [],
  "sources": [
   {
    "id": 1,
    "kb_id": "handbook",
    "doc_id": "leave.md",
    "chunk": 1,
    "name": "Leave",
    "section": "Parental leave",
    "score": 11.2,
    "relevance": 0.79,
    "fate": "in",
    "tokens": 53
   },
   {
    "kb_id": "handbook",
    "doc_id": "travel.md",
    "chunk": 0,
    "name": "Travel",
    "score": 1.1,
    "relevance": 0.27,
    "fate": "out",
    "tokens": 0,
    "reason": "score 1.1 \u003c 3.0"
   }
  ],
  "app_tags": 0,
  "total_chunks_retrieved": 0,
  "unique_chunks_after_dedup": 0,
  "chunks_selected": 0,
  "estimated_tokens": 0,
  "chunk_sources": {
   "bm25": 1
  },
  "edits": [
   {
    "name": "inject",
    "offset": 12,
    "deleted": 0,
    "inserted": 20
   }
  ]
 },
 "timings_ms": {
  "overhead": 4,
  "retrieve": 3,
  "fit": 2,
  "edit": 1,
  "first_byte": 20,
  "total": 1000
 }
}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	var back explain.Explanation
	if err := json.Unmarshal(got, &back); err != nil || back.Ledger == nil || back.Ledger.Used != 119 || back.Ledger.Edits[0].Inserted != 20 {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

// The last requests whose answers show their id are kept.
func TestLast(t *testing.T) {
	r := explain.New(3, explain.BodiesOff)
	if e, have, keep := r.Find("0"); e != nil || have != 0 || keep != 3 {
		t.Errorf("of nothing: %v, %d of %d", e, have, keep)
	}
	for i := range 5 {
		r.Record(injected(fmt.Sprint(i)))
		r.Record(&report.Report{ID: "relayed", Outcome: report.Relayed})
		if e, have, _ := r.Find("relayed"); e != nil || have != min(i+1, 3) {
			t.Errorf("after %d: %v, %d", i, e, have)
		}
		for j := range 5 {
			if e, _, _ := r.Find(fmt.Sprint(j)); (e != nil) != (j <= i && j > i-3) {
				t.Errorf("after %d: %d is %v", i, j, e)
			}
		}
	}
	first := find(t, r, "4")
	for range 3 {
		other := injected("other")
		other.Rewrite.Ledger.Edits = []rewrite.Edit{{Name: "marker"}}
		r.Record(other)
	}
	if e := first.Ledger.Edits; len(e) != 1 || e[0].Name != "inject" {
		t.Errorf("an explanation changed to %+v", e)
	}
	untouched := &report.Report{ID: "off", Outcome: rewrite.Untouched, Reason: rewrite.ReasonOff, Budget: report.Budget{Rung: "no_sources"}}
	untouched.Rewrite.Ambiguity = &chat.Error{Message: "twice"}
	r.Record(untouched)
	if e := find(t, r, "off"); e.Ledger != nil || e.Received != nil || e.Sent != nil || e.Detail != "twice" || e.Rung != "no_sources" {
		t.Errorf("without a rewrite: %+v", e)
	}
}

// Excluded candidates are shown unchanged; long texts are shortened if there are many.
func TestFallen(t *testing.T) {
	r := explain.New(1, explain.BodiesOff)
	fell := retrieval.Excluded{Knowledge: "wiki", Doc: strings.Repeat("long/", 200), Chunk: 1 << 20, Name: strings.Repeat("name ", 100), Score: 1e-300, Reason: retrieval.ExcludedTopK, Detail: "after the best 6"}
	for _, list := range [][]retrieval.Excluded{{fell}, slices.Repeat([]retrieval.Excluded{fell}, 50), nil} {
		of := injected("a")
		of.Rewrite.Ledger.Excluded = retrieval.NewExcludedList(list)
		whole := of.Rewrite.Ledger.WithExcluded().Sources
		r.Record(of)
		shown := find(t, r, "a").Ledger.Sources
		if len(list) > 1 {
			for i := range whole[1:] {
				whole[1+i].Doc, whole[1+i].Name = fell.Doc[:512]+" …", fell.Name[:256]+" …"
			}
		}
		if diff := cmp.Diff(whole, shown); diff != "" {
			t.Errorf("%d fell (-fell +shown):\n%s", len(list), diff)
		}
	}
}

// What a request can make long is shortened.
func TestBounds(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	of := injected("a")
	l := &of.Rewrite.Ledger
	l.Model = "x" + long
	values, kept := []any{}, &chunks.Ledger{Total: 2000, In: 1000}
	for i := range 1000 {
		values = append(values, fmt.Sprint(i, long[:100]))
		l.Notes = append(l.Notes, long)
		l.Edits = append(l.Edits, l.Edits[0])
		l.Sources = append(l.Sources, l.Sources[0])
		id := fmt.Sprint("chunk-", i)
		kept.Included = append(kept.Included, id)
		kept.Excluded = append(kept.Excluded, chunks.Excluded{ID: id, Reason: chunks.OutBudget})
		kept.Messages = append(kept.Messages, chunks.LedgerMessage{ChunkIDs: []string{id, id, id}})
	}
	l.Chunks = kept
	l.Filter = &filter.Filter{Type: filter.In, Key: "k", Value: values}
	of.Rewrite.Ambiguity = &chat.Error{Message: long}
	r := explain.New(1, explain.BodiesOff)
	r.Record(of)
	text, err := json.Marshal(find(t, r, "a"))
	if err != nil || len(text) > 40<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if e := find(t, r, "a"); !strings.HasSuffix(e.Ledger.Model, "é …") || len(e.Ledger.Sources) != 100 || len(e.Ledger.Edits) != 16 || len(e.Ledger.Notes) != 17 {
		t.Errorf("%.300s: %d sources, %d edits, notes %.40q", e.Ledger.Model, len(e.Ledger.Sources), len(e.Ledger.Edits), e.Ledger.Notes)
	}
	if c := find(t, r, "a").Ledger.Chunks; c.In != 1000 || len(c.Included) != 50 || len(c.Excluded) != 50 || len(c.Messages) != 50 || len(c.Messages[16].ChunkIDs) != 2 || len(c.Messages[17].ChunkIDs) != 0 {
		t.Errorf("%+v", c)
	}
	if len(kept.Included) != 1000 || len(kept.Messages[17].ChunkIDs) != 3 || len(l.Notes) != 1000 || len(l.Sources) != 1001 || len(l.Model) < 1<<20 {
		t.Error("the report was changed")
	}
	l.Filter = &filter.Filter{Type: filter.Eq, Key: "k", Value: "v"}
	r.Record(of)
	if e := find(t, r, "a"); e.Ledger.Filter.String() != l.Filter.String() || len(e.Ledger.Notes) != 16 {
		t.Errorf("a short filter is %s", e.Ledger.Filter)
	}
}

// The memory of a kept request is bounded, however many and long the names of its sources and the
// arguments of its tool calls are.
func TestMemoryOfARequest(t *testing.T) {
	worst := func(n int) *report.Report {
		name := func(kind string, i int) string { return fmt.Sprint(kind, n, "-", i, strings.Repeat("é", 500)) } // its own memory
		of := injected(fmt.Sprint(n))
		l := &of.Rewrite.Ledger
		var excluded []retrieval.Excluded
		l.Model, of.Rewrite.Retrieval.Cache = name("model", 0), retrieval.CacheMiss
		for i := range 200 {
			l.Notes = append(l.Notes, name("note", i))
			source := rewrite.SourceEntry{ID: i + 1, Knowledge: "kb", Doc: name("doc", i), Name: name("name", i), Section: name("section", i), Detail: name("detail", i)}
			if i < 10 {
				l.Sources = append(l.Sources, source)
			}
			excluded = append(excluded, retrieval.Excluded{Knowledge: "kb", Doc: source.Doc, Name: source.Name, Section: source.Section, Detail: source.Detail})
		}
		l.Excluded = retrieval.NewExcludedList(excluded)
		of.Tools = &report.Tools{}
		for i := range 100 {
			of.Tools.Calls = append(of.Tools.Calls, report.ToolCall{Name: name("tool", i), Arguments: name("arguments", i)})
			of.Tools.Sources = append(of.Tools.Sources, l.Sources[i%len(l.Sources)])
		}
		return of
	}
	usual := func(n int) *report.Report {
		of := injected(fmt.Sprint(n))
		l := &of.Rewrite.Ledger
		of.Rewrite.Retrieval.Cache = retrieval.CacheMiss
		for i := range 6 {
			l.Sources = append(l.Sources, rewrite.SourceEntry{ID: i + 1, Knowledge: "handbook", Doc: fmt.Sprint("policies/leave-", n, i, ".md"), Name: "Leave", Section: "Parental leave"})
		}
		var excluded []retrieval.Excluded
		for i := range 44 {
			excluded = append(excluded, retrieval.Excluded{Knowledge: "handbook", Doc: fmt.Sprint("policies/pay-", n, i, ".md"), Name: "Pay", Section: "Bonus", Reason: retrieval.ExcludedTopK, Detail: "after the best 6"})
		}
		l.Excluded = retrieval.NewExcludedList(excluded)
		return of
	}
	const requests = 20
	for name, c := range map[string]struct {
		of   func(int) *report.Report
		most int64
	}{"usual": {usual, 20 << 10}, "worst": {worst, 320 << 10}} {
		r := explain.New(requests, explain.BodiesOff)
		before := heap()
		for n := range 2 * requests {
			r.Record(c.of(n))
		}
		each := (heap() - before) / requests
		t.Logf("%s: %d bytes each", name, each)
		if each > c.most {
			t.Errorf("%s: %d bytes each, more than %d", name, each, c.most)
		}
		if e := find(t, r, fmt.Sprint(requests)); len(e.Ledger.Sources) < 50 || len(e.Ledger.Sources) > 100 {
			t.Errorf("%s: %d sources", name, len(e.Ledger.Sources))
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Recording and reading do not interfere.
func TestConcurrent(t *testing.T) {
	r := explain.New(8, explain.BodiesFull)
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			id := fmt.Sprint(i)
			for range 500 {
				of := injected(id)
				r.Received(of, []byte("body of "+id))
				r.Record(of)
				if e, _, _ := r.Find(id); e != nil && (e.ID != id || e.Received != nil && e.Received.Text != "body of "+id) {
					t.Errorf("%s is %+v", id, e)
				}
			}
		})
	}
	work.Wait()
}

// Once the ring is full, recording does not allocate.
func TestAllocations(t *testing.T) {
	r := explain.New(100, explain.BodiesOff)
	of := injected("a")
	for range 100 {
		r.Record(of)
	}
	for _, of := range []*report.Report{of, {Outcome: report.Relayed}} {
		if n := testing.AllocsPerRun(200, func() { r.Record(of) }); n > 0 {
			t.Errorf("%s: %v allocations", of.Outcome, n)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	r := explain.New(1000, explain.BodiesOff)
	of := injected("a")
	b.ReportAllocs()
	for b.Loop() {
		r.Record(of)
	}
}
