package retrieval_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"sidenote/retrieval"
)

// prepared runs Prepare and returns its result; asked is nil if Next was not called.
func prepared(c catalog, q retrieval.Query, next retrieval.Result) (asked *retrieval.Query, res retrieval.Result, err error) {
	p := &retrieval.Prepare{Ref: c.Ref, HasTerms: hasWords, Join: joinShort, Next: retrieval.Func(
		func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			asked = &q
			return next, nil
		})}
	res, err = p.Retrieve(context.Background(), q)
	return asked, res, err
}

// joinShort joins all turns if the question has fewer than three words.
func joinShort(text string, earlier iter.Seq[string]) (joined []retrieval.Turn) {
	if len(words(text)) > 2 {
		return nil
	}
	weight := 1.0
	for turn := range earlier {
		weight /= 2
		joined = append(joined, retrieval.Turn{Text: turn, Weight: weight})
	}
	return joined
}

func TestPrepareText(t *testing.T) {
	long := strings.Repeat("same ", 100)
	for name, c := range map[string]struct{ text, want string }{
		"plain":                {"how long is leave", "how long is leave"},
		"white space":          {"\n how\tlong \u00a0 is\u2003leave\r\n", "how long is leave"},
		"compatibility forms":  {"ﬁnd ＡＢＣ ①", "find ABC 1"},
		"composed":             {"cafe\u0301 au lait", "café au lait"},
		"long":                 {long + "b c", long + "b c"},
		"long without a space": {strings.Repeat("x", 1000), strings.Repeat("x", 1000)},
	} {
		asked, _, err := prepared(catalog{"a": "1"}, retrieval.Query{Text: c.text, Bases: refs("a")}, retrieval.Result{})
		if err != nil || asked == nil {
			t.Errorf("%s: not asked (%v)", name, err)
		} else if asked.Text != c.want || asked.Previous != nil {
			t.Errorf("%s: asked %q after %v, want %q", name, asked.Text, asked.Previous, c.want)
		}
	}
}

// The joined turns are folded and have terms; weights set by the caller are ignored.
func TestPreparePrevious(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		previous []string
		want     []retrieval.Turn
	}{
		"joins":          {"how long", []string{" what  is ﬁne ", "leave"}, []retrieval.Turn{{Text: "what is fine", Weight: 0.5}, {Text: "leave", Weight: 0.25}}},
		"stands alone":   {"how long exactly", []string{"what is leave"}, nil},
		"without terms":  {"how long", []string{" \n", "leave", "\t"}, []retrieval.Turn{{Text: "leave", Weight: 0.25}}},
		"nothing to add": {"how long", []string{" \n"}, nil},
		"alone has none": {"", []string{"parental leave"}, []retrieval.Turn{{Text: "parental leave", Weight: 0.5}}},
	} {
		q := retrieval.Query{Text: c.text, Bases: refs("a")}
		for _, text := range c.previous {
			q.Previous = append(q.Previous, retrieval.Turn{Text: text, Weight: 7})
		}
		asked, _, err := prepared(catalog{"a": "1"}, q, retrieval.Result{})
		if err != nil || asked == nil {
			t.Errorf("%s: not asked (%v)", name, err)
		} else if diff := cmp.Diff(c.want, asked.Previous); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Folding is idempotent, also if spaces were folded first.
func TestPrepareFoldsToOneForm(t *testing.T) {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		" ", "\t", "\n", "\u00a0", "\u3000", "\u0085", "\u0301", "\u0308", "e", "ﬁ", "¨", "가", "ᄀ", "ᅡ", "\xff", "İ", "ǅ", "plain words",
	}))
	fold := func(text string) string {
		asked, _, _ := prepared(catalog{"a": "1"}, retrieval.Query{Text: text, Previous: []retrieval.Turn{{Text: "p"}}, Bases: refs("a")}, retrieval.Result{})
		return asked.Text
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(piece).Draw(t, "text"), "")
		once := fold(text)
		if again := fold(once); again != once {
			t.Fatalf("%q folds to %q, then to %q", text, once, again)
		}
		if strings.Join(strings.Fields(once), " ") != once {
			t.Fatalf("%q has white space left: %q", text, once)
		}
		if want := strings.Join(strings.Fields(norm.NFKC.String(text)), " "); once != want {
			t.Fatalf("%q folds to %q, want %q", text, once, want)
		}
	})
}

func TestPrepareBases(t *testing.T) {
	c := catalog{"a": "1", "b": "2", "young": "", "other": "3"}
	asked, res, err := prepared(c, retrieval.Query{Text: "x", Bases: refs("b", "gone", "a", "young", "b")},
		retrieval.Result{Reason: retrieval.ReasonNoMatch})
	if err != nil {
		t.Fatal(err)
	}
	want := []retrieval.Ref{{Knowledge: "a", Generation: "1"}, {Knowledge: "b", Generation: "2"}}
	if diff := cmp.Diff(want, asked.Bases); diff != "" {
		t.Errorf("asked bases (-want +got):\n%s", diff)
	}
	if res.Reason != retrieval.ReasonIndexing || !res.Partial {
		t.Errorf("with a base still indexing: %q, partial %v", res.Reason, res.Partial)
	}
	settings := retrieval.DefaultSettings()
	settings.ScoreThreshold = 0 // a valid value
	if diff := cmp.Diff(settings, asked.Settings); diff != "" {
		t.Errorf("settings without values (-want +got):\n%s", diff)
	}
	_, res, _ = prepared(c, retrieval.Query{Text: "x", Bases: refs("a", "young")}, retrieval.Result{Reason: retrieval.ReasonTimeout})
	if res.Reason != retrieval.ReasonTimeout {
		t.Errorf("a timeout beside a base still indexing: %q", res.Reason)
	}
}

func TestPrepareAnswersWithoutSearch(t *testing.T) {
	c := catalog{"a": "1", "young": "", "younger": ""}
	for name, q := range map[string]struct {
		retrieval.Query
		want retrieval.Reason
		fail bool
	}{
		"no bases":            {retrieval.Query{Text: "x"}, retrieval.ReasonNoKnowledge, false},
		"unknown bases":       {retrieval.Query{Text: "x", Bases: refs("b", "c")}, retrieval.ReasonNoKnowledge, false},
		"no terms":            {retrieval.Query{Text: " \n", Previous: []retrieval.Turn{{Text: "\t"}}, Bases: refs("a")}, retrieval.ReasonNoQueryTerms, false},
		"no terms, no index":  {retrieval.Query{Bases: refs("young")}, retrieval.ReasonNoQueryTerms, false},
		"all bases are young": {retrieval.Query{Text: "x", Bases: refs("younger", "young")}, retrieval.ReasonIndexing, true},
	} {
		asked, res, err := prepared(c, q.Query, retrieval.Result{})
		if asked != nil || res.Reason != q.want || len(res.Sources) != 0 {
			t.Errorf("%s: asked %v, reason %q, want %q", name, asked, res.Reason, q.want)
		}
		if (err != nil) != q.fail || q.fail && !errors.Is(err, retrieval.ErrUnavailable) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The reason is ReasonState if a base has no index because of the state folder, even if other
// bases are being indexed or searched. A failed search is a worse reason.
func TestPrepareTellsAnUnusableState(t *testing.T) {
	c := catalog{"a": "1", "young": "", "lost": ""}
	found := retrieval.Result{Reason: retrieval.ReasonNoMatch}
	p := &retrieval.Prepare{
		Ref: c.Ref, HasTerms: hasWords,
		Next: retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) { return found, nil }),
		Unready: func(base string) retrieval.Reason {
			if base == "lost" {
				return retrieval.ReasonState
			}
			return retrieval.ReasonIndexing
		},
	}
	for _, want := range []struct {
		bases []retrieval.Ref
		found retrieval.Reason
		want  retrieval.Reason
		fails bool
	}{
		{refs("lost"), retrieval.ReasonNone, retrieval.ReasonState, true},
		{refs("lost", "young"), retrieval.ReasonNone, retrieval.ReasonState, true},
		{refs("young"), retrieval.ReasonNone, retrieval.ReasonIndexing, true},
		{refs("a", "lost"), retrieval.ReasonNoMatch, retrieval.ReasonState, false},
		{refs("a", "lost"), retrieval.ReasonTimeout, retrieval.ReasonTimeout, false},
	} {
		found.Reason = want.found
		res, err := p.Retrieve(t.Context(), retrieval.Query{Text: "x", Bases: want.bases})
		if res.Reason != want.want || !res.Partial || !res.Reason.Failed() || (err != nil) != want.fails {
			t.Errorf("%v, found %q: %q, partial %v, %v, want %q", want.bases, want.found, res.Reason, res.Partial, err, want.want)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	p := &retrieval.Prepare{Ref: catalog{"docs": "1"}.Ref, HasTerms: hasWords, Next: retrieval.Func(
		func(context.Context, retrieval.Query) (retrieval.Result, error) { return retrieval.Result{}, nil })}
	q := retrieval.Query{Text: "How many weeks of parental leave do I get?", Bases: refs("docs")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
