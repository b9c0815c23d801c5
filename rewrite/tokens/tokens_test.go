package tokens_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"

	"sidenote/rewrite/tokens"
)

// Encodings are slow to build: one set for all tests.
var set = tokens.New()

// oracle returns the reference encoder, built by its own library.
var oracle = func() func(name string) *tiktoken.Tiktoken {
	var mu sync.Mutex
	built := map[string]*tiktoken.Tiktoken{}
	return func(name string) *tiktoken.Tiktoken {
		mu.Lock()
		defer mu.Unlock()
		if built[name] == nil {
			tiktoken.SetBpeLoader(loader.NewOfflineLoader())
			enc, err := tiktoken.GetEncoding(name)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			built[name] = enc
		}
		return built[name]
	}
}()

func truth(encoding, text string) int { return len(oracle(encoding).EncodeOrdinary(text)) }

func encoding(t interface {
	Helper()
	Fatal(...any)
}, name string) *tokens.Encoding {
	t.Helper()
	e, err := set.Encoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// pieces are hard cases for pre-tokenizers: white space of all kinds, slashes, tags,
// contractions, camel case, marks, joiners, digits, scripts without spaces.
var pieces = []string{
	"\n", "\n\n", "\r\n", "\r", " ", "  ", "    ", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\v",
	"/", "//", "/*", "*/", "'", "'s", "'S", "'ll", "'re", "'x", "'ſ", "’s", "\"",
	"<source id=\"1\">", "</source>", "<sources>", "<", ">", "</", "&lt;", "{{QUERY}}", "<|endoftext|>",
	"a", "B", "foo", "Bar", "fooBar", "HTTPServer", "leave", " the", "ß", "é", "ﬁ", "ǅ", "ʰ", "Straße",
	"1", "12", "1234", "٣", "½", "Ⅷ", "二", "²",
	"\u0301", "\u0903", "\u20dd", "e\u0301", "\ufe0f", "\u200d", "\u200b", "\u00ad", "\ufeff",
	"中", "文", "。", "，", "休暇の日数", "한국어", "ไทย", "हिन्दी", "العربية", "😀", "👩‍👩‍👧", "🇩🇪",
	".", ",", "!", "?", "…", "-", "--", "=", "====", "#", "|", "(", ")", "_", "+", "$", "^", "\x00", "\x7f", "\ufffd", "𒀀", "\u0378",
}

func text(maxPieces int) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, maxPieces), func(p []string) string {
		return strings.Join(p, "")
	})
}

// long draws a text with a run that may be long.
func long() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		run := strings.Repeat(rapid.SampledFrom(pieces).Draw(t, "piece"), rapid.IntRange(1, 700).Draw(t, "times"))
		return text(6).Draw(t, "before") + run + text(6).Draw(t, "after")
	})
}

var names = []string{"o200k_base", "cl100k_base", "p50k_base", "r50k_base"}

func TestCountIsTheReference(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			e := encoding(t, name)
			rapid.Check(t, func(t *rapid.T) {
				s := text(40).Draw(t, "text")
				n, exact := e.Count(s)
				if want := truth(name, s); n != want || !exact {
					t.Fatalf("Count(%q) = %d, %v; want %d, true", s, n, exact, want)
				}
				if again, _ := e.Count(s); again != n {
					t.Fatalf("Count(%q) = %d, then %d", s, n, again)
				}
			})
		})
	}
}

func TestCountOfLongRuns(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			e := encoding(t, name)
			rapid.Check(t, func(t *rapid.T) {
				s := long().Draw(t, "text")
				n, exact := e.Count(s)
				if want := truth(name, s); n != want || !exact {
					t.Fatalf("Count(%.200q) = %d, %v; want %d", s, n, exact, want)
				}
			})
		})
	}
}

func TestCountUpToStops(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		s := rapid.OneOf(text(40), long()).Draw(t, "text")
		limit := rapid.IntRange(-1, 60).Draw(t, "limit")
		n, end := encoding(t, name).CountUpTo(s, limit)
		want := truth(name, s)
		if n <= limit && (n != want || end != len(s)) || n > limit && want <= limit {
			t.Fatalf("CountUpTo(%q, %d) = %d, %d of %d; the whole is %d", s, limit, n, end, len(s), want)
		}
	})
	e := encoding(t, "o200k_base")
	if n, end := e.CountUpTo(strings.Repeat("a", 1<<20), 10); n <= 10 || end > 11*128 {
		t.Errorf("CountUpTo(a megabyte, 10) = %d, %d", n, end)
	}
	if n, end := e.CountUpTo("one \xff", 2); n != 7 || end != 5 {
		t.Errorf("CountUpTo of a bad byte = %d, %d; want 7, 5", n, end)
	}
}

func TestCountEdges(t *testing.T) {
	e := encoding(t, "o200k_base")
	f := func(s string, want int, wantExact bool) {
		t.Helper()
		if n, exact := e.Count(s); n != want || exact != wantExact {
			t.Errorf("Count(%.40q) = %d, %v; want %d, %v", s, n, exact, want, wantExact)
		}
	}
	f("", 0, true)
	f("hello world", 2, true)
	f("a\n \n b", 3, true)
	f("<|endoftext|>", truth("o200k_base", "<|endoftext|>"), true)
	f(strings.Repeat("a", 5000), truth("o200k_base", strings.Repeat("a", 5000)), true)
	f("hello "+strings.Repeat("\n", 600)+"\nworld", 41, true)
	f("a\xffb", 5, false)

	if _, err := set.Encoding("gpt2"); err == nil {
		t.Error("Encoding(gpt2): want an error")
	}
}

func TestConcurrentCountsAgree(t *testing.T) {
	e := encoding(t, "o200k_base")
	words := strings.Fields(strings.Repeat("one two three four five six seven ", 50))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range words {
				s := strings.Join(words[i:min(i+g+1, len(words))], " ")
				if n, exact := e.Count(s); n != len(strings.Fields(s)) || !exact {
					t.Errorf("Count(%q) = %d, %v", s, n, exact)
				}
			}
		})
	}
	wg.Wait()
}
