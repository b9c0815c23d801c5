package services_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval/services"
	"sidenote/retrieval/services/servicestest"
)

// Transient errors are retried, when the service wants it.
func TestPassagesAreAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fault    func(n int) (status int, after string)
		attempts int
		least    time.Duration
		most     time.Duration
		err      string
	}{
		"limited":     {func(n int) (int, string) { return 429 * b2i(n < 3), "7" }, 3, 14 * time.Second, 14 * time.Second, ""},
		"unavailable": {func(n int) (int, string) { return 503 * b2i(n == 1), "2" }, 2, 2 * time.Second, 2 * time.Second, ""},
		"broken":      {func(n int) (int, string) { return 500 * b2i(n < 4), "" }, 4, 3500 * time.Millisecond, 7 * time.Second, ""},
		"for good":    {func(int) (int, string) { return 500, "" }, 5, 7500 * time.Millisecond, 15 * time.Second, "answered 500"},
		"a long time": {func(n int) (int, string) { return 429 * b2i(n == 1), "86400" }, 2, time.Minute, time.Minute, ""},
		"wrong key":   {func(int) (int, string) { return 401, "" }, 1, 0, 0, "answered 401"},
		"wrong model": {func(int) (int, string) { return 404, "" }, 1, 0, 0, "answered 404"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				client := inMemory(t, nil, func(_ int, r servicestest.Request) servicestest.Fault {
					asked++
					if status, after := c.fault(asked); status > 0 {
						return servicestest.Status(status, after)
					}
					return nil
				})
				start := time.Now()
				got, err := client.Passages(t.Context(), []string{"a", "b"})
				if took := time.Since(start); asked != c.attempts || took < c.least || took > c.most {
					t.Errorf("asked %d times in %v, want %d in %v to %v", asked, took, c.attempts, c.least, c.most)
				}
				if fine := err == nil && got.Vectors[1] != nil; fine != (c.err == "") || !strings.Contains(fmt.Sprint(err), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
			})
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inMemory returns a client of a service without a network, for tests with fake time.
func inMemory(t *testing.T, change func(*services.EmbedOptions), fault func(n int, r servicestest.Request) servicestest.Fault) *services.Embedder {
	t.Helper()
	s := servicestest.New()
	s.Break(fault)
	o := services.EmbedOptions{BaseURL: &url.URL{Scheme: "http", Host: "stub.test"}, Model: "stub", Counter: words{}}
	if change != nil {
		change(&o)
	}
	c := services.NewEmbedder(o)
	services.SetTransport(c, roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result(), r.Context().Err()
	}))
	t.Cleanup(c.Close)
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A service that hangs costs a limited time.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestHungService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t, nil, nil)
		services.SetTransport(client, roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		start := time.Now()
		_, err := client.Passages(t.Context(), []string{"a"})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if lines := client.Trouble(); len(lines) != 1 || !strings.Contains(lines[0], "no answer in time") {
			t.Errorf("trouble %q", lines)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start = time.Now()
		if _, err := client.Embed(ctx, []string{"a"}); err == nil || time.Since(start) != 300*time.Millisecond {
			t.Errorf("a question: %v after %v", err, time.Since(start))
		}
	})
}

// A pause ends with its context.
func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t, nil, func(int, servicestest.Request) servicestest.Fault { return servicestest.Status(429, "30") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := client.Passages(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// refusing answers with an error if refused holds for an input.
func refusing(status int, refused func(input string) bool) func(int, servicestest.Request) servicestest.Fault {
	return func(_ int, r servicestest.Request) servicestest.Fault {
		if slices.ContainsFunc(r.Input, refused) {
			return servicestest.Status(status, "")
		}
		return nil
	}
}

// A passage that the service refuses does not affect the others; one that is too long is
// shortened.
func TestRefusedPassages(t *testing.T) {
	s := servicestest.Start(t)
	c, told := open(t, s, nil)
	passages := make([]string, 16)
	for i := range passages {
		passages[i] = fmt.Sprint("passage ", i)
	}
	passages[11] = "poison"
	passages[5] = strings.Repeat("long ", 400)
	s.Break(refusing(413, func(input string) bool { return input == "poison" || len(input) > 600 }))
	got, err := c.Passages(t.Context(), passages)
	if err != nil || got.Refused != 1 || got.Why == nil || !strings.Contains(got.Why.Error(), "413") {
		t.Fatalf("%v, %d refused: %v", err, got.Refused, got.Why)
	}
	for i, v := range got.Vectors {
		if (v == nil) != (i == 11) {
			t.Errorf("passage %d: %v", i, v)
		}
	}
	if n := len(s.Asked()); n > 20 {
		t.Errorf("asked %d times", n)
	}
	if c.Trouble() != nil {
		t.Errorf("trouble %q", c.Trouble())
	}
	told.take()
}

// If all passages are refused, the service is at fault, and few requests find that out.
func TestAllPassagesRefused(t *testing.T) {
	for name, fault := range map[string]func(int, servicestest.Request) servicestest.Fault{
		"refused": refusing(400, func(string) bool { return true }),
		"zero":    changed(func(a *servicestest.Answer) { a.Data[0].Embedding = make([]float32, servicestest.Dimensions) }),
	} {
		t.Run(name, func(t *testing.T) {
			s := servicestest.Start(t)
			c, _ := open(t, s, nil)
			s.Break(fault)
			got, err := c.Passages(t.Context(), strings.Fields(strings.Repeat("word ", 64)))
			if err == nil || slices.ContainsFunc(got.Vectors, func(v []float32) bool { return v != nil }) {
				t.Errorf("%v, %v", got, err)
			}
			if n := len(s.Asked()); n > 12 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Vectors of an unexpected length are not the fault of a passage.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestOtherDimensions(t *testing.T) {
	s := servicestest.Start(t)
	c, _ := open(t, s, nil)
	if _, err := c.Passages(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	s.Break(func(_ int, r servicestest.Request) servicestest.Fault {
		r.Dimensions = 32
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(r)) }
	})
	_, err := c.Passages(t.Context(), []string{"a", "b", "c", "d"})
	other := (*services.DimensionError)(nil)
	if !errors.As(err, &other) || *other != (services.DimensionError{Got: 32, Want: servicestest.Dimensions}) || len(s.Asked()) != 1 {
		t.Errorf("%v after %d requests", err, len(s.Asked()))
	}
	if want := "set embeddings.dimensions to 32"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say: %s", err, want)
	}
}

// Inputs are cut to the model's limit, and requests to the limits of services.
func TestCut(t *testing.T) {
	s := servicestest.Start(t)
	prefix := "é "
	c, _ := open(t, s, func(o *services.EmbedOptions) { o.InputTokens, o.PassagePrefix, o.Batch = 10, &prefix, 3 })
	long := strings.Repeat("wörd ", 50)
	if _, err := c.Passages(t.Context(), []string{long, "short"}); err != nil {
		t.Fatal(err)
	}
	got := s.Inputs()
	if n := len(strings.Fields(got[0])); n != 9 || !strings.HasPrefix(prefix+long, got[0]) || got[1] != "é short" {
		t.Errorf("%d words in %q; and %q", n, got[0], got[1])
	}
	if n, tokens := c.Fit([]string{"a b", "a", "a", "a"}); n != 3 || tokens != 3+2+2 {
		t.Errorf("%d passages of %d tokens fit", n, tokens)
	}
	wide, _ := open(t, s, func(o *services.EmbedOptions) { o.InputTokens = 90_000; o.Batch = 100 })
	huge := strings.Repeat("w ", 60_000)
	if n, tokens := wide.Fit([]string{huge, huge, huge}); n != 1 || tokens != 60_000 {
		t.Errorf("%d huge passages of %d tokens fit", n, tokens)
	}
}

// Traits depend on the model name, whoever serves it.
func TestTraits(t *testing.T) {
	const represent = "Represent this sentence for searching relevant passages: "
	for name, want := range map[string]services.EmbedTraits{
		"text-embedding-3-small":                 {InputTokens: 8191},
		"openai/text-embedding-ada-002":          {InputTokens: 8191},
		"intfloat/multilingual-e5-small":         {Query: "query: ", Passage: "passage: ", InputTokens: 512},
		"e5":                                     {Query: "query: ", Passage: "passage: ", InputTokens: 512},
		"BAAI/bge-large-en-v1.5":                 {Query: represent, InputTokens: 512},
		"bge-m3:latest":                          {InputTokens: 8192},
		"text-embedding-nomic-embed-text-v1.5":   {Query: "search_query: ", Passage: "search_document: ", InputTokens: 2048},
		"sentence-transformers/all-MiniLM-L6-v2": {InputTokens: 256},
		"all-minilm":                             {InputTokens: 256},
		"somebody/else5-model":                   {InputTokens: 512},
	} {
		if got := services.EmbedTraitsOf(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
