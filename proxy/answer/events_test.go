package answer_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy/answer"
)

// A writes collects each Write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	if len(p) == 0 {
		panic("nothing is written") // as a chunk it would end an answer
	}
	*w = append(*w, string(p))
	return len(p), nil
}

// split returns the events of an answer that arrives in these pieces.
func split(stream bool, pieces ...string) (w writes) {
	run(stream, &w, pieces)
	return w
}

func run(stream bool, out io.Writer, pieces []string, stages ...answer.EventStage) {
	var s answer.Splitter
	s.Reset(!stream, io.Discard)
	_, _ = s.Write([]byte("of the answer before"))
	s.Reset(stream, out, stages...)
	for _, p := range pieces {
		_, _ = s.Write([]byte(p))
	}
	_ = s.Close()
}

func TestSplit(t *testing.T) {
	for _, want := range [][]string{
		{"data: 1\n\n", "data: 2\n\n", "data: [DONE]\n\n"},
		{"data: 1\r\n\r\n", "data: 2\r\n\r\n"},
		{"event: a\ndata: 1\ndata: 2\n\n", ": a comment\n\n", "data:3\n\n"},
		{"data: 1\r\n\n", "data: 2\n\r\n", "data: 3\n\n"},
		{"data: 1\n\n", "\ndata: 2\n\n", "\n\n", "data: 3"},
		{"data: 1\n\n", "data: cut\n"},
		{"data: \r 1\rdata: 2\r\r"},
		{"data: 1\n\rdata: 2\n\r\r\n\n"},
		{"{\"no\": \"stream\"}"},
		{"\n\n", "\n\n"},
		nil,
	} {
		answer := strings.Join(want, "")
		if got := split(true, answer); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := split(true, strings.Split(answer, "")...); !slices.Equal(got, want) {
			t.Errorf("by letters: got %q, want %q", got, want)
		}
		if got := split(false, strings.Split(answer, "")...); strings.Join(got, "|") != answer {
			t.Errorf("as one: got %q", got)
		}
	}
}

// An event is passed on as soon as it is complete, without a copy if it came in one piece.
func TestEventsDoNotWait(t *testing.T) {
	var w writes
	var s answer.Splitter
	s.Reset(true, &w)
	for i, c := range []struct {
		piece string
		want  []string // all that was handed on
	}{
		{"data: 1\n", nil},
		{"\n", []string{"data: 1\n\n"}},
		{"data: 2\n\ndata: 3\n\ndat", []string{"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"}},
	} {
		if n, err := s.Write([]byte(c.piece)); n != len(c.piece) || err != nil || !slices.Equal(w, c.want) {
			t.Errorf("%d: %d, %v, got %q", i, n, err, w)
		}
	}
	piece := []byte("data: 1\n\n")
	s.Reset(true, writer(func(p []byte) (int, error) {
		if &p[0] != &piece[0] {
			t.Error("it was copied")
		}
		return len(p), nil
	}))
	_, _ = s.Write(piece)
}

// A writer is a function used as an io.Writer.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// editor is a stage that drops comments and inserts an event before the last one.
func editor(next io.Writer) io.Writer {
	return writer(func(event []byte) (int, error) {
		switch {
		case event[0] == ':':
			return len(event), nil
		case bytes.HasPrefix(event, []byte("data: [DONE]")):
			if _, err := next.Write([]byte("data: inserted\n\n")); err != nil {
				return 0, err
			}
		}
		return next.Write(event)
	})
}

// reader is a stage that counts events and changes none.
func reader(seen *int) answer.EventStage {
	return func(next io.Writer) io.Writer {
		return writer(func(event []byte) (int, error) { *seen++; return next.Write(event) })
	}
}

// Stages get events in order; what they do not change is passed on unchanged.
func TestStages(t *testing.T) {
	const ans = "data: {\"seed\": 1.0}\r\n\r\n: ping\n\ndata: {\"usage\":{\"prompt_tokens\":5}}\n\ndata: [DONE]\n\n"
	const edited = "data: {\"seed\": 1.0}\r\n\r\ndata: {\"usage\":{\"prompt_tokens\":5}}\n\ndata: inserted\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		stages func(reader answer.EventStage) []answer.EventStage
		want   string
		read   int
	}{
		"none":          {func(answer.EventStage) []answer.EventStage { return nil }, ans, 0},
		"reader":        {func(s answer.EventStage) []answer.EventStage { return []answer.EventStage{s} }, ans, 4},
		"an editor":     {func(answer.EventStage) []answer.EventStage { return []answer.EventStage{editor} }, edited, 0},
		"reader first":  {func(s answer.EventStage) []answer.EventStage { return []answer.EventStage{s, editor} }, edited, 4},
		"reader second": {func(s answer.EventStage) []answer.EventStage { return []answer.EventStage{editor, s} }, edited, 4},
		"two editors":   {func(s answer.EventStage) []answer.EventStage { return []answer.EventStage{editor, editor, s} }, strings.Replace(edited, "data: inserted\n\n", "data: inserted\n\ndata: inserted\n\n", 1), 5},
	} {
		for seed := range uint64(20) {
			var out bytes.Buffer
			read := 0
			run(true, &out, pieces(ans, seed), c.stages(reader(&read))...)
			if out.String() != c.want {
				t.Errorf("%s: got %q", name, out.String())
			}
			if read != c.read {
				t.Errorf("%s: %d events read, want %d", name, read, c.read)
			}
		}
	}
}

// An event that is too large bypasses the stages but keeps its place.
func TestLargeEvents(t *testing.T) {
	large := "data: " + strings.Repeat("x", answer.MaxEvent) + "\n\n"
	ans := ": one\n\n" + large + ": two\n\ndata: [DONE]\n\n"
	for _, size := range []int{len(ans), 100_000, 4096} {
		var cut []string
		for p := range slices.Chunk([]byte(ans), size) {
			cut = append(cut, string(p))
		}
		var out, all bytes.Buffer
		run(true, &writes{}, cut, editor)
		run(true, &out, cut, editor)
		if want := large + "data: inserted\n\ndata: [DONE]\n\n"; out.String() != want {
			t.Errorf("in pieces of %d: %d bytes, want %d", size, out.Len(), len(want))
		}
		seen := 0
		run(false, &all, cut, reader(&seen))
		if all.String() != ans || seen != 0 {
			t.Errorf("as one, in pieces of %d: %d bytes, a stage saw %d", size, all.Len(), seen)
		}
	}
	if got := split(false, strings.Repeat("x", answer.MaxEvent)); len(got) != 1 {
		t.Errorf("an event of the largest size comes in %d", len(got))
	}
}

// Write returns errors of stages and of the output.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := writer(func([]byte) (int, error) { return 0, broken })
	for name, c := range map[string]struct {
		pieces []string
		stages []answer.EventStage
	}{
		"out":         {[]string{"data: 1\n\n"}, nil},
		"stage":       {[]string{"data: 1\n\n"}, []answer.EventStage{editor}},
		"insertion":   {[]string{"data: [DONE]\n\n"}, []answer.EventStage{editor}},
		"large":       {[]string{strings.Repeat("x", answer.MaxEvent+1)}, nil},
		"large later": {[]string{"x", strings.Repeat("x", answer.MaxEvent)}, nil},
	} {
		var s answer.Splitter
		s.Reset(true, fails, c.stages...)
		var err error
		for _, p := range c.pieces {
			_, err = s.Write([]byte(p))
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var s answer.Splitter
	s.Reset(false, fails)
	if _, err := s.Write([]byte("{}")); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, broken) {
		t.Errorf("close: %v", err)
	}
}

// Any input passes byte for byte, however it is split. An editing stage gives the same result for
// any split.
func FuzzEventsBytes(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[],\"usage\":null}\n\ndata: [DONE]\n\n"), uint64(1), true)
	f.Add([]byte(": a\r\n\r\n\ndata: 1\n\r\n\r\rdata: [DONE]\n\n"), uint64(3), true)
	f.Fuzz(func(t *testing.T, answer []byte, seed uint64, stream bool) {
		cut := pieces(string(answer), seed)
		for range 2 {
			var out bytes.Buffer
			run(stream, &out, cut, reader(new(int)), func(next io.Writer) io.Writer { return next })
			if !bytes.Equal(out.Bytes(), answer) {
				t.Fatalf("%q becomes %q", answer, out.Bytes())
			}
			cut = []string{string(answer)}
		}
		if whole, got := split(stream, string(answer)), split(stream, pieces(string(answer), seed)...); !slices.Equal(whole, got) {
			t.Fatalf("events %q, in pieces %q", whole, got)
		}
	})
}

// pieces cuts s into pieces at random.
func pieces(s string, seed uint64) (out []string) {
	random := rand.New(rand.NewPCG(seed, 1))
	for s != "" {
		n := min(1+random.IntN(1+random.IntN(24)), len(s))
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}
