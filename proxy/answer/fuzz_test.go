package answer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/answer"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// However deltas split a text, its citations are those of the whole text, and the client gets this
// text, without unknown markers if those are removed.
func FuzzCuts(f *testing.F) {
	for i, c := range markers {
		f.Add(c.content, uint64(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, content string, seed uint64, remove bool) {
		content = strings.ToValidUTF8(content, "?")
		random := rand.New(rand.NewPCG(seed, 1))
		var parts []string
		for rest := []rune(content); len(rest) > 0; {
			n := min(1+random.IntN(1+random.IntN(12)), len(rest))
			parts, rest = append(parts, string(rest[:n])), rest[n:]
		}
		o := answer.CitationOptions{SourceByID: given, Terms: terms, RemoveUnknown: remove}
		text, want, report := checked(t, o, content)
		checker := answer.NewCitations(o)
		m := readCitations(t, stream(t, checker, cutInto(parts...), 1+random.IntN(100)))[0]
		if got := cited(m.content, m.annotations); m.content != text || !slices.Equal(got, want) || checker.Report().Unknown != report.Unknown {
			t.Fatalf("%q: got %q %q, want %q %q", parts, m.content, got, text, want)
		}
		if !remove && text != content {
			t.Fatalf("%q became %q", content, text)
		}
	})
}

// Any input passes, and without removals byte for byte except for inserted events.
func FuzzBytes(f *testing.F) {
	f.Add(role+delta(0, `"A [1]"`)+finish+done, true)
	f.Add(`{"choices":[{"message":{"content":"A [1]"}}]}`, false)
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"[9\"}}]}\n\n"+delta(0, `"\ud83d"`)+delta(1, `"] [1]"`)+"data: {\"choices\":[", true)
	f.Fuzz(func(t *testing.T, ans string, remove bool) {
		c := answer.NewCitations(answer.CitationOptions{SourceByID: given, Terms: terms, RemoveUnknown: remove, CountOnly: true})
		if got := stream(t, c, ans, 9); got != ans && !remove {
			t.Fatalf("%q became %q", ans, got)
		}
		c.Report()
		c = answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: remove})
		if got := c.JSON([]byte(ans)); json.Valid([]byte(ans)) && !json.Valid(got) {
			t.Fatalf("%q became %q", ans, got)
		}
	})
}

// linearUnits are text fragments that would take quadratic time if they were scanned repeatedly.
var linearUnits = []string{"[", "`", "[[1]", "` ``", "[1](", "[1] `", "a[1]\n`", "~~~\n", "【1", "[9] ", "。"}

// The longest answers are read in linear time, whatever they consist of; in quadratic time they
// would take minutes.
func TestLongestAnswersEnd(t *testing.T) {
	most := answer.MaxCitedJSON
	if testing.Short() {
		most /= 16
	}
	for _, unit := range linearUnits {
		n := (most - len(whole(""))) / (len(whole(unit)) - len(whole("")))
		linear(t, unit, n, func(n int) {
			if body := []byte(whole(strings.Repeat(unit, n))); len(answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true}).JSON(body)) == 0 {
				t.Errorf("%q: nothing is left", unit)
			}
		})
	}
}

// linear checks that work is linear in n.
func linear(t *testing.T, name string, n int, work func(n int)) {
	t.Helper()
	knowledgetest.Linear(t, name, n, 32, work)
}

// BenchmarkLinear measures how much longer 16 times the text takes.
func BenchmarkLinear(b *testing.B) {
	for _, unit := range linearUnits {
		b.Run(unit, func(b *testing.B) {
			took := func(n int) time.Duration {
				body := []byte(whole(strings.Repeat(unit, n)))
				start := time.Now()
				for range b.N {
					answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true}).JSON(body)
				}
				return time.Since(start)
			}
			small, large := took(4000), took(64000)
			b.ReportMetric(float64(large)/float64(small), "×")
		})
	}
}

// BenchmarkStream measures a stream of a hundred deltas with a few citations, compared with
// splitting it into events.
func BenchmarkStream(b *testing.B) {
	words := strings.SplitAfter(strings.Repeat("Refunds take five working days after we got the parcel [1]. Shipping within the country is free [2][3]. ", 6), " ")
	ans := []byte(cutInto(words...))
	through := map[string]func() io.WriteCloser{
		"splitter": func() io.WriteCloser {
			s := new(answer.Splitter)
			s.Reset(true, io.Discard)
			return splitter{s}
		},
		"checked": func() io.WriteCloser {
			return answer.NewCitations(answer.CitationOptions{SourceByID: given}).Filter(io.Discard)
		},
	}
	run := func(b *testing.B, make func() io.WriteCloser) time.Duration {
		start := time.Now()
		for range b.N {
			w := make()
			for piece := range slices.Chunk(ans, 4096) {
				_, _ = w.Write(piece)
			}
			_ = w.Close()
		}
		return time.Since(start)
	}
	b.ReportAllocs()
	bare := run(b, through["splitter"])
	b.ResetTimer()
	checked := run(b, through["checked"])
	b.ReportMetric(float64(checked)/float64(bare), "×splitter")
	b.ReportMetric(float64(checked.Nanoseconds())/float64(b.N*len(words)), "ns/event")
}

type splitter struct{ *answer.Splitter }

// A panic stops the checking but does not change the answer.
func TestPanic(t *testing.T) {
	told := 0
	broken := answer.CitationOptions{
		SourceByID: func(int) (answer.CitedSource, bool) { panic("broken") },
		Panicked:   func(any, []byte) { told++ },
	}
	for _, remove := range []bool{false, true} {
		broken.RemoveUnknown = remove
		ans := cutInto("A ", "[1]", ". B [2]")
		c := answer.NewCitations(broken)
		if got := stream(t, c, ans, 50); got != ans || c.Report().Unread != answer.UnreadBug {
			t.Errorf("remove %v: got %s, %+v", remove, got, c.Report())
		}
		var out bytes.Buffer
		if _, err := answer.NewCitations(broken).Stage(&out).Write([]byte(delta(0, `"A [1]. B [2"`))); err != nil || out.Len() == 0 {
			t.Errorf("remove %v: the event is held, %v", remove, err)
		}
		c = answer.NewCitations(broken)
		if got := string(c.JSON([]byte(whole("A [1]")))); got != whole("A [1]") || c.Report().Unread != answer.UnreadBug {
			t.Errorf("remove %v: got %s, %+v", remove, got, c.Report())
		}
	}
	if told != 6 {
		t.Errorf("%d bugs are told", told)
	}
}
