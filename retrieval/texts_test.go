package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
)

// late is an engine that keeps the texts of its sources.
type late struct {
	attributes map[string]string // of documents, as JSON
	answer     retrieval.Result  // with texts
	read       map[string]int    // by document: number of reads of its text
	broken     map[string]error  // by document: error on reading its text
	located    error             // error of Locate
}

func newLate(floor float64, sources ...retrieval.Source) *late {
	return &late{answer: retrieval.Result{Sources: sources, Floor: floor}, read: map[string]int{}}
}

func (l *late) Retrieve(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	res := retrieval.Result{Bases: q.Bases, Floor: l.answer.Floor, Texts: l}
	for i, s := range l.answer.Sources {
		res.Sources = append(res.Sources, retrieval.Source{
			Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Score: s.Score, At: retrieval.Place{Kept: true, Text: i},
		})
	}
	return res, nil
}

func (l *late) Mark(hits []retrieval.Hit) error {
	for i := range hits {
		h := &hits[i]
		of := l.answer.Sources[h.At.Text]
		seen, _ := l.Sketch(h)
		h.Mark = retrieval.Mark{Glance: seen.Glance(), Bytes: len(of.Text), Sum: crc32.ChecksumIEEE([]byte(of.Text))}
		h.Document = slices.IndexFunc(l.answer.Sources, func(s retrieval.Source) bool { return s.Knowledge == of.Knowledge && s.Doc == of.Doc })
	}
	return l.broken["marks"]
}

func (l *late) Sketch(h *retrieval.Hit) (retrieval.Sketch, error) {
	return retrieval.SketchOf(words(l.answer.Sources[h.At.Text].Text)), nil
}

func (l *late) Read(sources []*retrieval.Source) error {
	for _, s := range sources {
		if err := l.broken[l.answer.Sources[s.At.Text].Doc]; err != nil {
			return err
		}
		of := l.answer.Sources[s.At.Text]
		l.read[of.Doc]++
		s.Doc, s.Chunk, s.Text = of.Doc, of.Chunk, of.Text
	}
	for _, s := range sources {
		s.Name = "about " + s.Doc
	}
	return nil
}

func (l *late) Label(hits []*retrieval.Hit, add func(retrieval.Label)) error {
	for _, h := range hits {
		of := l.answer.Sources[h.At.Text]
		name := "about " + of.Doc
		if l.attributes != nil {
			name = "Leave"
		}
		add(retrieval.Label{Doc: []byte(of.Doc), Chunk: of.Chunk, Name: []byte(name), Attributes: []byte(l.attributes[of.Doc])})
	}
	return nil
}

// A finder is a late engine that answers a Pipeline with hits.
type finder struct{ *late }

func (f finder) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	res, err := f.late.Retrieve(ctx, q)
	hits := q.Hits[:0]
	if cap(hits) == 0 {
		return res, err
	}
	for _, s := range res.Sources {
		base := slices.IndexFunc(res.Bases, func(ref retrieval.Ref) bool { return ref.Knowledge == s.Knowledge })
		hits = append(hits, retrieval.Hit{At: s.At, Base: base, Score: s.Score, Arm: s.Arm, ByArm: s.ByArm})
	}
	res.Sources, res.Hits = nil, hits
	return res, errors.Join(err, f.Mark(res.Hits))
}

func (l *late) Locate(_ context.Context, _ retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	for _, hit := range hits {
		hit.At.Text = slices.IndexFunc(l.answer.Sources, func(s retrieval.Source) bool { return s.Doc == hit.Doc && s.Chunk == hit.Chunk })
		if hit.At.Text < 0 {
			return nil, retrieval.ErrNoHit
		}
	}
	return l, l.located
}

// over returns a pipeline over one late engine, whose bases are joint, and others.
func over(l retrieval.Retriever, others engines, joint ...string) *retrieval.Pipeline {
	p := others.pipeline()
	p.Joint = func(id string) string {
		if slices.Contains(joint, id) {
			return "one"
		}
		return ""
	}
	rest := p.Bases
	p.Bases = func(id string) retrieval.Retriever {
		if p.Joint(id) != "" {
			return l
		}
		return rest(id)
	}
	return p
}

// forms returns the ways in which a late engine can answer a Pipeline.
func forms(l *late) map[string]retrieval.Retriever {
	return map[string]retrieval.Retriever{"sources": l, "hits": finder{l}}
}

// of sets the base of a source.
func of(knowledge string, s retrieval.Source) retrieval.Source {
	s.Knowledge = knowledge
	return s
}

// It makes no difference whether texts come with the hits or are read later, and only texts that
// are selected or similar are read.
func TestLateTextsSelectTheSame(t *testing.T) {
	text := func(i int) string {
		var b strings.Builder
		for w := range 90 {
			b.WriteString(spelled(i) + spelled(w) + " ")
		}
		return b.String()
	}
	var sources []retrieval.Source
	for i := range 50 {
		sources = append(sources, of("a", chunk(fmt.Sprintf("%02d.md", i), 0, 100-float64(i), text(i/2)+[]string{"", "print"}[i%2])))
	}
	sources[10].Text = sources[2].Text // identical text
	sources[48].Text, sources[49].Text = " ", " "
	q := asking("a")
	q.Settings.ScoreThreshold, q.Settings.MaxPerDocument = retrieval.AutoThreshold, 9
	want, err := engines{"a": has(60, sketched(sources)...)}.pipeline().Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for form := range forms(newLate(60)) {
		l := newLate(60, sources...)
		got, err := over(forms(l)[form], nil, "a").Retrieve(t.Context(), q)
		if diff := gocmp.Diff(outcome(want), outcome(got)); diff != "" || err != nil {
			t.Fatalf("%s: %v (-with texts +late):\n%s", form, err, diff)
		}
		for i, s := range got.Sources {
			if s.Text != want.Sources[i].Text || s.Name == "" || s.Relevance != want.Sources[i].Relevance {
				t.Errorf("%s: %s is not whole: %+v", form, s.Doc, s)
			}
		}
		for _, x := range got.Excluded.List() {
			if x.Name != "about "+x.Doc {
				t.Errorf("%s: what fell: %+v", form, x)
			}
		}
		if got.Texts != nil || got.Hits != nil || got.Floor != 60 {
			t.Errorf("%s: texts %v, hits %v, floor %v", form, got.Texts, got.Hits, got.Floor)
		}
		read := map[string]int{"02.md": 1, "10.md": 1, "48.md": 1, "49.md": 1} // read for comparison
		for i := range 48 {                                                    // all but 11 are similar to another one
			if i != 11 {
				read[fmt.Sprintf("%02d.md", i)]++
			}
		}
		for _, s := range got.Sources {
			read[s.Doc]++
		}
		if diff := gocmp.Diff(read, l.read, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: texts read (-want +got):\n%s", form, diff)
		}
	}
}

// Equal texts of different engines are found.
func TestLateTextsAreComparedAcrossEngines(t *testing.T) {
	l := newLate(0, of("a", chunk("x.md", 0, .9, " - ")), of("a", chunk("y.md", 0, .7, "one two")))
	for form, engine := range forms(l) {
		p := over(engine, engines{"b": has(0, chunk("copy.md", 0, .8, " - "), chunk("other.md", 0, .6, " + "))}, "a")
		got, err := p.Retrieve(t.Context(), asking("a", "b"))
		want := "in  a/x.md#0\nin  a/y.md#0\nin  b/other.md#0\nout b/copy.md#0 duplicate: duplicate of x.md#0 in a\n4 retrieved, 3 unique"
		if diff := gocmp.Diff(want, outcome(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", form, err, diff)
		}
	}
}

// With equal scores, chunks of a document are in document order and count together, even if one
// engine returns hits and another sources.
func TestHitsBesideSources(t *testing.T) {
	l := newLate(0, of("a", chunk("x.md", 0, .5, "ant")), of("a", chunk("x.md", 1, .5, "bee")), of("a", chunk("x.md", 2, .5, "cat")), of("a", chunk("y.md", 0, .5, "dog")))
	q := asking("a", "b")
	q.Settings.MaxPerDocument = 2
	for form, engine := range forms(l) {
		got, err := over(engine, engines{"b": has(0, chunk("x.md", 0, .5, "eel"), chunk("w.md", 0, .5, "dog"))}, "a").Retrieve(t.Context(), q)
		want := "in  a/x.md#0\nin  a/x.md#1\nin  a/y.md#0\nin  b/x.md#0\nout a/x.md#2 per_document: 2 of x.md already\nout b/w.md#0 duplicate: duplicate of y.md#0 in a\n6 retrieved, 5 unique"
		if diff := gocmp.Diff(want, outcome(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", form, err, diff)
		}
	}
}

// A base whose texts cannot be read is left out, and the answer is partial. If no other base has
// sources, it is an error.
func TestUnreadableTexts(t *testing.T) {
	damage := &retrieval.UnreadableError{Knowledge: "a", Err: errors.New("damaged")}
	for name, c := range map[string]struct {
		broken map[string]error
		bases  []string
		want   string // documents found
		fails  bool
	}{
		"whole":               {nil, []string{"a", "b", "c"}, "x y z", false},
		"a text":              {map[string]error{"x": damage}, []string{"a", "b", "c"}, "y z", false},
		"a base that is none": {map[string]error{"x": &retrieval.UnreadableError{Knowledge: "q", Err: errors.New("damaged")}}, []string{"a", "b", "c"}, "z", false},
		"whose is not known":  {map[string]error{"x": errors.New("I/O error")}, []string{"a", "b", "c"}, "z", false},
		"marks":               {map[string]error{"marks": damage}, []string{"a", "b", "c"}, "z", false},
		"all":                 {map[string]error{"x": damage}, []string{"a"}, "", true},
		"all, one by one":     {map[string]error{"x": damage, "y": &retrieval.UnreadableError{Knowledge: "b", Err: errors.New("too")}}, []string{"a", "b"}, "", true},
	} {
		for form := range forms(newLate(0)) {
			t.Run(name+", "+form, func(t *testing.T) {
				l := newLate(0, of("a", chunk("x", 0, .9, "ant")), of("b", chunk("y", 0, .8, "bee")))
				l.answer.Sources = slices.DeleteFunc(l.answer.Sources, func(s retrieval.Source) bool { return !slices.Contains(c.bases, s.Knowledge) })
				l.broken = c.broken
				got, err := over(forms(l)[form], engines{"c": has(0, chunk("z", 0, .7, "cat"))}, "a", "b").Retrieve(t.Context(), asking(c.bases...))
				var found []string
				for _, s := range got.Sources {
					found = append(found, s.Doc)
				}
				reason := retrieval.ReasonError
				if c.broken == nil {
					reason = retrieval.ReasonNone
				}
				if strings.Join(found, " ") != c.want || got.Partial != (c.broken != nil) || got.Reason != reason || (err != nil) != c.fails {
					t.Errorf("%v, partial %v, %q, %v", found, got.Partial, got.Reason, err)
				}
				if c.fails && !errors.Is(err, retrieval.ErrUnavailable) {
					t.Errorf("%v does not wrap ErrUnavailable", err)
				}
				for _, ref := range got.Bases {
					if c.broken != nil && ref.Knowledge == "a" {
						t.Error("says that the base was searched")
					}
				}
			})
		}
	}
}

// Locate reads the texts of a cached answer from their engines.
func TestPipelineLocates(t *testing.T) {
	l := newLate(0, of("a", chunk("x", 3, .9, "ant")), of("b", chunk("y", 0, .8, "bee")))
	p := over(l, engines{"c": has(0, chunk("z", 0, .7, "cat"))}, "a", "b")
	x, y, z := of("a", chunk("x", 3, 0, "")), of("b", chunk("y", 0, 0, "")), of("c", chunk("z", 0, 0, ""))
	q := asking("a", "b", "c")
	texts, err := p.Locate(t.Context(), q, []*retrieval.Source{&x, &y})
	if err != nil {
		t.Fatal(err)
	}
	if err := texts.Read([]*retrieval.Source{&y}); err != nil || y.Text != "bee" {
		t.Errorf("read %+v, %v", y, err)
	}
	names := ""
	if err := texts.Label([]*retrieval.Hit{{At: x.At}, {At: y.At}}, func(l retrieval.Label) { names += string(l.Name) + "; " }); err != nil || names != "about x; about y; " {
		t.Errorf("named %s %v", names, err)
	}
	if _, err := p.Locate(t.Context(), q, []*retrieval.Source{&x, &z}); !errors.Is(err, retrieval.ErrNoHit) {
		t.Errorf("of an engine that keeps no texts: %v", err)
	}
	stray := of("d", chunk("x", 3, 0, ""))
	if _, err := p.Locate(t.Context(), q, []*retrieval.Source{&x, &stray}); !errors.Is(err, retrieval.ErrNoHit) {
		t.Errorf("of a base that was not searched: %v", err)
	}
	l.located = retrieval.ErrGone
	if _, err := p.Locate(t.Context(), q, []*retrieval.Source{&x}); !errors.Is(err, retrieval.ErrGone) {
		t.Errorf("of another generation: %v", err)
	}
	// Two engines that keep texts.
	other := newLate(0, of("d", chunk("w", 0, .9, "dog")))
	l.located = nil
	two := &retrieval.Pipeline{Terms: words, Bases: func(id string) retrieval.Retriever {
		if id == "d" {
			return other
		}
		return l
	}}
	w := of("d", chunk("w", 0, 0, ""))
	x.Name = ""
	texts, err = two.Locate(t.Context(), asking("a", "d"), []*retrieval.Source{&x, &w})
	if err != nil {
		t.Fatal(err)
	}
	if err := texts.Read([]*retrieval.Source{&x, &w}); err != nil || x.Text != "ant" || w.Text != "dog" {
		t.Errorf("read %+v, %+v, %v", x, w, err)
	}
	hits := []retrieval.Hit{{At: w.At, Base: 1}, {At: x.At}} // bases of the query
	if names, err = "", texts.Mark(hits); err == nil {
		err = texts.Label([]*retrieval.Hit{&hits[0], &hits[1]}, func(l retrieval.Label) { names += string(l.Name) + "; " })
	}
	if err != nil || names != "about w; about x; " {
		t.Errorf("named %s %v", names, err)
	}
	if hits[0].Base = 2; texts.Mark(hits) == nil || texts.Label([]*retrieval.Hit{&hits[0]}, func(retrieval.Label) {}) == nil {
		t.Error("found the engine of a base that was not asked for")
	}
}

// Whole reads all texts, and does not modify shared results.
func TestWhole(t *testing.T) {
	l := newLate(1, of("a", chunk("x", 0, .9, "ant")), of("a", chunk("y", 0, .8, "bee")))
	shared, err := l.Retrieve(t.Context(), asking("a"))
	if err != nil {
		t.Fatal(err)
	}
	same := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) { return shared, nil })
	got, err := retrieval.WithTexts{Next: same}.Retrieve(t.Context(), asking("a"))
	if err != nil || len(got.Sources) != 2 || got.Sources[1].Text != "bee" || got.Sources[1].At.Kept || got.Texts != nil || got.Floor != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if shared.Sources[1].Text != "" {
		t.Error("the answer of the engine was changed")
	}
	l.broken = map[string]error{"y": &retrieval.UnreadableError{Knowledge: "a", Err: errors.New("damaged")}}
	if got, err := (retrieval.WithTexts{Next: same}).Retrieve(t.Context(), asking("a")); !errors.Is(err, retrieval.ErrUnavailable) || got.Reason != retrieval.ReasonError || !strings.Contains(err.Error(), "base a") {
		t.Errorf("%+v, %v", got, err)
	}
}

// An engine that claims to keep texts but returns no Texts does not cause a failure.
func TestPipelineWithoutTexts(t *testing.T) {
	kept := chunk("x", 0, .9, "")
	kept.At.Kept = true
	other := kept
	other.Doc, other.Text, other.Score = "y", "bee", .8
	q := asking("a")
	q.Settings.TopK = 1
	got, err := engines{"a": has(0, kept, other)}.pipeline().Retrieve(t.Context(), q)
	if err != nil || len(got.Sources) != 1 || got.Excluded.Len() != 1 || got.Excluded.List()[0].Doc != "y" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Hits of bases that were not asked are an error.
func TestHitsOfOtherBases(t *testing.T) {
	for base, fails := range map[int]bool{0: false, 1: true, 2: true, -1: true} {
		l := newLate(0, of("a", chunk("x", 0, .9, "ant")))
		engine := strayed{finder{l}, base}
		got, err := over(engine, nil, "a").Retrieve(t.Context(), asking("a"))
		if (err != nil) != fails || len(got.Sources) > 0 == fails {
			t.Errorf("base %d: %d sources, %v", base, len(got.Sources), err)
		}
		if fails && !errors.Is(err, retrieval.ErrUnavailable) {
			t.Errorf("base %d: %v does not wrap ErrUnavailable", base, err)
		}
	}
}

// A strayed engine returns the given base index for all hits, and one more base than asked.
type strayed struct {
	finder
	base int
}

func (s strayed) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	res, err := s.finder.Retrieve(ctx, q)
	res.Bases = append(slices.Clone(res.Bases), retrieval.Ref{Knowledge: "another"})
	for i := range res.Hits {
		res.Hits[i].Base = s.base
	}
	return res, err
}
