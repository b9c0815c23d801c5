package tools_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
)

// A search finds chunks, with snippets about the question; what the caller may not see is not
// found.
func TestSearch(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	found, err := k.Search(t.Context(), as, "which badge do tricycles need", 3)
	if err != nil || len(found.Hits) == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	hit := found.Hits[0]
	if hit.Doc != "guide.md" || hit.Knowledge != "staff" || !strings.Contains(hit.Snippet, "badge called velocity") || len(hit.Snippet) > 320 || hit.Score < 0.5 || hit.Section != "Garage" {
		t.Errorf("%+v", hit)
	}
	if found, err := k.Search(t.Context(), as, "merger with Zephyr", 3); err != nil || len(found.Hits) > 0 || found.Reason != retrieval.ReasonNoMatch {
		t.Errorf("hidden: %+v, %v", found, err)
	}
	as.Filter = nil
	if found, err := k.Search(t.Context(), as, "merger with Zephyr", 3); err != nil || len(found.Hits) != 1 {
		t.Errorf("seen: %+v, %v", found, err)
	}
}

// whole accepts every Reading.
func whole(tools.Reading) bool { return true }

// References are read in order, with neighbours of the same section if there is room, up to the
// requested size.
func TestRead(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	found, err := k.Search(t.Context(), as, "which badge do tricycles need", 1)
	if err != nil || len(found.Hits) != 1 {
		t.Fatal(found, err)
	}
	ref := found.Hits[0].Ref
	foreign := tools.Ref{Knowledge: "staff", Doc: "secret.md"}
	missing := tools.Ref{Knowledge: "staff", Doc: "../../etc/passwd"}
	wide, err := k.Read(t.Context(), as, []tools.Ref{foreign, ref, missing, ref}, 1<<20, whole)
	if err != nil || len(wide.Sources) != 1 || fmt.Sprint(wide.Missing) != fmt.Sprint([]tools.Ref{foreign, missing}) {
		t.Fatalf("%+v, %v", wide, err)
	}
	text := wide.Sources[0].Text
	if !strings.Contains(text, "velocity") || strings.Contains(text, "kitchen") || strings.Count(text, "garage is looked after") != 25 {
		t.Errorf("not the section: %s", text)
	}
	for room := 200; room < 4000; room += 137 {
		r, err := k.Read(t.Context(), as, []tools.Ref{ref, {Knowledge: "staff", Doc: "guide.md"}}, room, whole)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range r.Sources {
			n += utf8.RuneCountInString(s.Text)
		}
		if n > room || len(r.Sources) == 0 || len(r.Sources)+len(r.Cut) < 2 {
			t.Errorf("%d characters of %d, %d sources, cut %v", n, room, len(r.Sources), r.Cut)
		}
	}

	// Texts that do not fit are shortened, down to nothing.
	for most := len(text); most >= 0; most -= 97 {
		size := func(r tools.Reading) (n int) {
			for _, s := range r.Sources {
				n += len(s.Text)
			}
			return n
		}
		r, err := k.Read(t.Context(), as, []tools.Ref{ref, missing}, 1<<20, func(r tools.Reading) bool { return size(r) <= most })
		if err != nil || size(r) > most || most >= 400 && len(r.Sources) != 1 || len(r.Sources)+len(r.Cut) == 0 || len(r.Missing) != 1 {
			t.Fatalf("%d bytes: %+v, %v", most, r, err)
		}
	}
}

// A scorer scores documents by a word in them; others get 0.2.
type scorer map[string]float64

func (s scorer) Rerank(_ context.Context, _ string, documents []string) ([]float64, error) {
	scores := make([]float64, len(documents))
	for i, text := range documents {
		scores[i] = 0.2
		for word, score := range s {
			if strings.Contains(text, word) {
				scores[i] = score
			}
		}
	}
	return scores, nil
}

// If a model scores, the relevance of files is its score: the grader's before the reranker's.
// Files that were not scored come last.
func TestFilesByScores(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"a": {
		{ID: "paths.md", Text: "Garden paths: the paths of a garden are of gravel."}, {ID: "beds.md", Text: "Garden beds, and how a garden is laid out."},
		{ID: "snails.md", Text: "Snails come to every corner of a garden by night."},
	}})
	if got := filesOf(t, k, as); len(got) != 9 || got[6] != "snails.md" {
		t.Fatalf("without scores: %q", got)
	}
	reranking := &retrieval.Reranking{RerankSettings: retrieval.RerankSettings{Upstream: "u", Documents: 9, Timeout: time.Minute}, Reranker: scorer{"Snails": 1.5, "beds": -1}}
	grading := &retrieval.Grading{
		GradeSettings: retrieval.GradeSettings{By: retrieval.GradeByModel, Relevant: 0.7, Irrelevant: 0.3, Timeout: time.Minute}, Grader: scorer{"beds": 0.9, "paths": 0.4},
	}
	as.Reranking = reranking
	if got := filesOf(t, k, as); strings.Join(got, " ") != "snails.md 10.0 true paths.md 2.0 true beds.md 0.0 true" {
		t.Errorf("reranked: %q", got)
	}
	as.Grading = grading
	if got := filesOf(t, k, as); strings.Join(got, " ") != "beds.md 9.0 true paths.md 4.0 true snails.md 2.0 false" {
		t.Errorf("graded: %q", got)
	}
	as.Grading, reranking.Documents = nil, 2
	if got := filesOf(t, k, as); strings.Join(got, " ") != "paths.md 2.0 true beds.md 0.0 true snails.md 0.0 true" {
		t.Errorf("two reranked: %q", got)
	}
}

// filesOf formats the files that a search finds: path, relevance, and whether it is relevant.
func filesOf(t *testing.T, k *tools.Knowledge, as retrieval.Query) (list []string) {
	t.Helper()
	files, _, err := k.Files(t.Context(), as, "what is in the garden", 9)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, f.Path(as), fmt.Sprintf("%.1f", f.Relevance), fmt.Sprint(f.Relevant))
	}
	return list
}

// Each file is returned once, with its best chunk, and files below the threshold are marked.
func TestFiles(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"a": toolstest.Staff(), "b": {{ID: "bikes.md", Text: "Tricycles are kept in the garage."}}})
	files, _, err := k.Files(t.Context(), as, "tricycles garage badge", 4)
	if err != nil || len(files) < 2 || len(files) > 4 {
		t.Fatalf("%+v, %v", files, err)
	}
	seen := map[string]bool{}
	for i, f := range files {
		if path := f.Path(as); seen[path] || f.Relevance < 0 || f.Relevance > 10 || f.Doc == "secret.md" || !strings.HasPrefix(path, f.Knowledge+"/") {
			t.Errorf("%+v", f)
		} else {
			seen[path] = true
		}
		if i > 0 && f.Relevance > files[i-1].Relevance || f.Relevant != (f.Relevance >= 5) {
			t.Errorf("%d: %+v after %+v", i, f, files[i-1])
		}
	}
	if !seen["a/guide.md"] || !seen["b/bikes.md"] {
		t.Errorf("%+v", files)
	}
}

// words counts the words of passages.
func words(passages []tools.Recalled) (n int) {
	for _, p := range passages {
		n += 3 + len(strings.Fields(p.Text))
	}
	return n
}

// Passages never exceed the room, are never adjacent, are visible to the caller, and use the room.
func TestRecall(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	rapid.Check(t, func(rt *rapid.T) {
		room := rapid.IntRange(0, 1500).Draw(rt, "room")
		var paths []string
		if rapid.Bool().Draw(rt, "named") {
			paths = rapid.SliceOfN(rapid.SampledFrom([]string{"guide.md", "staff/guide.md", "leave.md", "secret.md", "../x"}), 1, 3).Draw(rt, "paths")
		}
		got, err := k.Recall(t.Context(), as, "tricycles badge velocity kitchen", paths, room, words)
		if err != nil {
			rt.Fatal(err)
		}
		if n := words(got.Passages); n > room {
			rt.Fatalf("%d of %d", n, room)
		}
		for i, p := range got.Passages {
			if p.Doc == "secret.md" || p.Relevance < 0 || p.Relevance > 10 || i > 0 && paths == nil && p.Relevance > got.Passages[i-1].Relevance {
				rt.Fatalf("%+v", p)
			}
			for _, q := range got.Passages[:i] {
				if p.Doc == q.Doc && (p.First <= q.End && q.First <= p.End) {
					rt.Fatalf("%v and %v touch", p.Passage, q.Passage)
				}
			}
		}
		if room > 500 && len(got.Passages) == 0 && (paths == nil || strings.Contains(strings.Join(paths, " "), "guide.md")) {
			rt.Fatal("nothing is recalled")
		}
	})
	got, err := k.Recall(t.Context(), as, "badge velocity", []string{"guide.md", "secret.md"}, 60, words)
	if err != nil || len(got.Passages) != 1 || !strings.Contains(got.Passages[0].Text, "velocity") || fmt.Sprint(got.Missing) != "[secret.md]" {
		t.Errorf("cut to the question: %+v, %v", got, err)
	}
}

// A reference can be parsed again, whatever the document id.
func TestParseRef(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tools.Ref{
			Knowledge: rapid.StringMatching(`[a-z0-9_-]{1,8}`).Draw(t, "knowledge"), Doc: rapid.StringN(1, 12, -1).Draw(t, "doc"), Chunk: rapid.IntRange(0, 1<<40).Draw(t, "chunk"),
		}
		if got, err := tools.ParseRef(want.String()); err != nil || got != want {
			t.Fatalf("%q: %+v, %v", want.String(), got, err)
		}
	})
	for _, s := range []string{"", ":", "::", "a", "a:b", "a::0", ":b:0", "a:b:", "a:b:-1", "a:b:01", "a:b:+1", "a:b:1e3", "a:b:99999999999999999999", "../../etc/passwd"} {
		if ref, err := tools.ParseRef(s); err == nil {
			t.Errorf("%q is %+v", s, ref)
		}
	}
}

// BenchmarkRecall recalls 4,000 tokens out of 100,000 chunks.
func BenchmarkRecall(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	docs := make([]chunk.Document, 10000)
	for i := range docs {
		var text strings.Builder
		for n := range 10 {
			fmt.Fprintf(&text, "## Part %d\n\n", n)
			for range 40 {
				fmt.Fprintf(&text, "w%d ", int(random.ExpFloat64()*2000))
			}
			text.WriteString("\n\n")
		}
		docs[i] = chunk.Document{ID: fmt.Sprint("d", i), Text: text.String(), Markdown: true}
	}
	k, as := toolstest.Open(b, map[string][]chunk.Document{"b": docs})
	size := func(passages []tools.Recalled) (n int) {
		for _, p := range passages {
			n += 20 + len(p.Text)/4
		}
		return n
	}
	for n := 0; b.Loop(); n++ {
		if got, err := k.Recall(b.Context(), as, fmt.Sprintf("w%d w%d w%d w%d", n%5000, 40, 400, 7*n%3000), nil, 4000, size); err != nil || len(got.Passages) == 0 {
			b.Fatal(got, err)
		}
	}
}
