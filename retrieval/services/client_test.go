package services_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/retrieval/services/servicestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ retrieval.Embedder = (*services.Embedder)(nil)

// words counts words as tokens.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

// A log records what a client reports.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) told(use services.Use, result services.EmbedResult, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(use, " ", result, " ", tokens))
}

func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// open returns a client of a service; it is closed when the test ends.
func open(t *testing.T, s *servicestest.Service, change func(*services.EmbedOptions)) (*services.Embedder, *log) {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := &log{}
	o := services.EmbedOptions{BaseURL: u, Model: "stub", Counter: words{}, OnRequest: l.told}
	if change != nil {
		change(&o)
	}
	c := services.NewEmbedder(o)
	t.Cleanup(func() {
		c.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return c, l
}

// Requests for a question and for passages are correct, and both encodings of vectors are decoded.
func TestRequests(t *testing.T) {
	s := servicestest.Start(t)
	c, told := open(t, s, func(o *services.EmbedOptions) {
		o.Model, o.Dimensions, o.Key = "intfloat/multilingual-e5-small", 16, func() string { return "sk-1" }
	})
	if _, err := c.Embed(t.Context(), []string{"how long is leave"}); err != nil {
		t.Fatal(err)
	}
	floats := func(_ int, r servicestest.Request) servicestest.Fault {
		r.Encoding = "float"
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(r)) }
	}
	want := []servicestest.Request{{
		Model: "intfloat/multilingual-e5-small", Input: []string{"query: how long is leave"}, Encoding: "base64", Dimensions: 16, Key: "sk-1",
	}}
	if got := s.Asked(); !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v, want %+v", got, want)
	}
	passages := []string{"Leave\n16 weeks", "Travel\nby train"}
	packed, err := c.Passages(t.Context(), passages)
	if err != nil {
		t.Fatal(err)
	}
	s.Break(floats)
	listed, err := c.Passages(t.Context(), passages)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range passages {
		want := servicestest.Vector("passage: "+text, 16)
		if !slices.Equal(packed.Vectors[i], want) || !slices.Equal(listed.Vectors[i], want) {
			t.Errorf("%q: %v in base64, %v as a list, want %v", text, packed.Vectors[i], listed.Vectors[i], want)
		}
	}
	if got, want := told.take(), []string{"query ok 5", "passage ok 8", "passage ok 8"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if c.Trouble() != nil {
		t.Errorf("trouble %q", c.Trouble())
	}
}

// No number of dimensions is requested unless it is configured.
func TestDimensionsAreSentWhereConfigured(t *testing.T) {
	s := servicestest.Start(t)
	c, _ := open(t, s, nil)
	vectors, err := c.Embed(t.Context(), []string{"a"})
	if err != nil || len(vectors[0]) != servicestest.Dimensions || s.Asked()[0].Dimensions != 0 {
		t.Errorf("%v, %v, asked %+v", vectors, err, s.Asked())
	}
}

// answering answers each request with text.
func answering(text string) func(int, servicestest.Request) servicestest.Fault {
	return func(int, servicestest.Request) servicestest.Fault {
		return func(w http.ResponseWriter, _ servicestest.Request) { _, _ = w.Write([]byte(text)) }
	}
}

// changed answers with the correct answer, modified by change.
func changed(change func(a *servicestest.Answer)) func(int, servicestest.Request) servicestest.Fault {
	return func(_ int, r servicestest.Request) servicestest.Fault {
		a := servicestest.AnswerTo(r)
		change(&a)
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, a) }
	}
}

// Vectors are returned in the order of the inputs, whatever the order in the answer.
func TestReorderedAnswer(t *testing.T) {
	s := servicestest.Start(t)
	c, _ := open(t, s, nil)
	s.Break(changed(func(a *servicestest.Answer) { slices.Reverse(a.Data) }))
	texts := []string{"a", "b", "c"}
	vectors, err := c.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if !slices.Equal(vectors[i], servicestest.Vector(text, servicestest.Dimensions)) {
			t.Errorf("vector %d is not that of %q", i, text)
		}
	}
}

// An invalid answer is an error that says why, and gives no vectors.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestAnswersAreChecked(t *testing.T) {
	with := func(change func(v []float32)) func(*servicestest.Answer) {
		return func(a *servicestest.Answer) {
			v := servicestest.Vector("b", servicestest.Dimensions)
			change(v)
			a.Data[1].Embedding = servicestest.Packed(v)
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		fault func(int, servicestest.Request) servicestest.Fault
		want  string
	}{
		"one too few":    {changed(func(a *servicestest.Answer) { a.Data = a.Data[:1] }), "1 vectors for 2 inputs"},
		"one too many":   {changed(func(a *servicestest.Answer) { a.Data = append(a.Data, a.Data[0]) }), "3 vectors for 2 inputs"},
		"twice":          {changed(func(a *servicestest.Answer) { a.Data[1].Index = 0 }), "index 0 comes twice"},
		"out of range":   {changed(func(a *servicestest.Answer) { a.Data[1].Index = 2 }), "index 2 of 2 inputs"},
		"below":          {changed(func(a *servicestest.Answer) { a.Data[0].Index = -1 }), "index -1 of 2 inputs"},
		"no index":       {answering(`{"data": [{"embedding": [1]}, {"embedding": [2]}]}`), "data[0] has no index"},
		"shorter":        {changed(func(a *servicestest.Answer) { a.Data[1].Embedding = []float32{1, 2} }), "vectors of 2 dimensions, not 64"},
		"empty":          {changed(func(a *servicestest.Answer) { a.Data[1].Embedding = []float32{} }), "all of its 0 numbers are 0"},
		"NaN":            {changed(with(func(v []float32) { v[3] = nan })), "vector 1: number 3 of 64 is NaN"},
		"infinite":       {changed(with(func(v []float32) { v[0] = inf })), "vector 1: number 0 of 64 is -Inf"},
		"zero":           {changed(with(func(v []float32) { clear(v) })), "vector 1: all of its 64 numbers are 0"},
		"beyond float32": {answering(`{"data": [{"index": 0, "embedding": [1e300]}, {"index": 1, "embedding": [1]}]}`), "no list of float32s"},
		"null":           {answering(`{"data": [{"index": 0, "embedding": [1, null]}, {"index": 1, "embedding": [1, 2]}]}`), "neither a list of numbers nor base64"},
		"no vector":      {answering(`{"data": [{"index": 0}, {"index": 1}]}`), "neither a list of numbers nor base64"},
		"not base64":     {changed(func(a *servicestest.Answer) { a.Data[0].Embedding = "%%%" }), "no base64 of float32s"},
		"odd base64":     {changed(func(a *servicestest.Answer) { a.Data[0].Embedding = "AAAAAAA=" }), "no base64 of float32s"},
		"an error":       {answering(`{"error": {"message": "key sk-secret is bad", "code": "bad_key"}}`), "it is an error (bad_key), with status 200"},
		"its key":        {answering(`{"error": {"code": "sk-secret-1"}}`), "it is an error, with status 200"},
		"no data":        {answering(`{"object": "list"}`), "it has no data"},
		"a list":         {answering(`[1, 2]`), "it is no list of vectors"},
		"not JSON":       {answering(`{"data": [NaN`), "not JSON"},
		"a word":         {answering(`"ok"`), "it is no list of vectors"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servicestest.Start(t)
			client, told := open(t, s, func(o *services.EmbedOptions) { o.Key = func() string { return "sk-secret-1" } })
			if _, err := client.Passages(t.Context(), []string{"first"}); err != nil { // sets the dimensions
				t.Fatal(err)
			}
			told.take()
			s.Break(c.fault)
			vectors, err := client.Embed(t.Context(), []string{"a", "b"})
			if err == nil || !strings.Contains(err.Error(), c.want) || vectors != nil {
				t.Errorf("%v, %v; want an error of %q", vectors, err, c.want)
			}
			if strings.Contains(fmt.Sprint(err, client.Trouble()), "secret") {
				t.Errorf("%v tells what the service said", err)
			}
			if lines := client.Trouble(); len(lines) != 1 || !strings.HasPrefix(lines[0], "embeddings: stub at 127.0.0.1:") {
				t.Errorf("trouble %q", lines)
			}
			if got := told.take(); len(got) != 1 || strings.HasPrefix(got[0], "query ok") {
				t.Errorf("told %q", got)
			}
			s.Break(nil)
			if _, err := client.Embed(t.Context(), []string{"a"}); err != nil || client.Trouble() != nil {
				t.Errorf("afterwards: %v, %q", err, client.Trouble())
			}
		})
	}
}

// A huge answer is not read to its end.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestHugeAnswer(t *testing.T) {
	s := servicestest.Start(t)
	c, _ := open(t, s, nil)
	var written int
	done := make(chan struct{})
	s.Break(func(int, servicestest.Request) servicestest.Fault {
		return func(w http.ResponseWriter, r servicestest.Request) {
			defer close(done)
			page := []byte(strings.Repeat("1,", 1<<19))
			_, _ = w.Write([]byte(`{"data": [{"index": 0, "embedding": [`))
			for written < 1<<30 {
				n, err := w.Write(page)
				if written += n; err != nil {
					return
				}
			}
		}
	})
	_, err := c.Embed(t.Context(), []string{"a"})
	if err == nil || !strings.Contains(err.Error(), "answer is larger than 8 MiB") {
		t.Errorf("%v", err)
	}
	if <-done; written > 64<<20 {
		t.Errorf("%d MiB were sent", written>>20)
	}
}

// A question is sent once, and waits no longer than its deadline.
func TestQuestionsAreAskedOnce(t *testing.T) {
	s := servicestest.Start(t)
	c, told := open(t, s, nil)
	for _, status := range []int{429, 500, 503, 400} {
		s.Break(func(int, servicestest.Request) servicestest.Fault { return servicestest.Status(status, "") })
		if _, err := c.Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("answered ", status, " (stub_error)")) {
			t.Errorf("%d: %v", status, err)
		}
		if n := len(s.Asked()); n != 1 {
			t.Errorf("%d: asked %d times", status, n)
		}
	}
	want := []string{"query limited 0", "query error 0", "query error 0", "query refused 0"}
	if got := told.take(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Break(func(int, servicestest.Request) servicestest.Fault {
		cancel()
		return servicestest.Status(500, "")
	})
	_, err := c.Embed(ctx, []string{"a"})
	if got := told.take(); err == nil || len(got) > 0 && !errors.Is(err, context.Canceled) && got[0] != "query error 0" {
		t.Errorf("%v, told %q", err, got)
	}
}

// The reported token usage is used if it is plausible.
func TestTokens(t *testing.T) {
	s := servicestest.Start(t)
	c, told := open(t, s, nil)
	for said, want := range map[int]string{3: "query ok 3", 0: "query ok 2", -5: "query ok 2", 1 << 40: "query ok 2"} {
		s.Break(changed(func(a *servicestest.Answer) { a.Usage.PromptTokens, a.Usage.TotalTokens = said, said }))
		if _, err := c.Embed(t.Context(), []string{"two words"}); err != nil {
			t.Fatal(err)
		}
		if got := told.take(); !slices.Equal(got, []string{want}) {
			t.Errorf("said %d: told %q, want %q", said, got, want)
		}
	}
}

// The Space names exactly what changes the vectors of passages.
func TestSpace(t *testing.T) {
	s := servicestest.Start(t)
	space := func(change func(*services.EmbedOptions)) string {
		c, _ := open(t, s, change)
		text, err := json.Marshal(c.Space())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	own := ""
	seen := map[string]string{}
	for name, change := range map[string]func(*services.EmbedOptions){
		"as it is":       nil,
		"model":          func(o *services.EmbedOptions) { o.Model = "other" },
		"dimensions":     func(o *services.EmbedOptions) { o.Dimensions = 32 },
		"passage prefix": func(o *services.EmbedOptions) { p := "p: "; o.PassagePrefix = &p },
		"input tokens":   func(o *services.EmbedOptions) { o.InputTokens = 100 },
	} {
		text := space(change)
		if before, twice := seen[text]; twice {
			t.Errorf("%s and %s have one space: %s", name, before, text)
		}
		seen[text] = name
	}
	if space(func(o *services.EmbedOptions) { o.QueryPrefix, o.PassagePrefix, o.Batch = &own, &own, 3 }) != space(nil) {
		t.Error("what changes no passage is in the space")
	}
}

// A question answered by another model does not change the expected dimensions, and is an error if
// the dimensions of passages are known.
func TestQuestionsTeachNothing(t *testing.T) {
	s := servicestest.Start(t)
	c, _ := open(t, s, nil)
	other := func(_ int, r servicestest.Request) servicestest.Fault {
		r.Dimensions = 32
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(r)) }
	}
	s.Break(other)
	if _, err := c.Embed(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
	s.Break(nil)
	if _, err := c.Embed(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
	c.Expect(servicestest.Dimensions)
	s.Break(other)
	wrong := (*services.DimensionError)(nil)
	if _, err := c.Embed(t.Context(), []string{"a"}); !errors.As(err, &wrong) || wrong.Want != servicestest.Dimensions {
		t.Error(err)
	}
	if _, err := c.Passages(t.Context(), []string{"a"}); !errors.As(err, &wrong) || wrong.Want != servicestest.Dimensions {
		t.Error(err)
	}
}
