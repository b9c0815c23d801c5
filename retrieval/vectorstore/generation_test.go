package vectorstore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval"
)

// A tape is a transport that answers each request with the next text, and fails if that is "".
type tape struct{ next func(r *http.Request) string }

func (p tape) RoundTrip(r *http.Request) (*http.Response, error) {
	body := p.next(r)
	if body == "" {
		return nil, fmt.Errorf("refused")
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// recorded returns a base over a tape; its state is read by Refresh only.
func recorded(next func(*http.Request) string) *Base {
	b, _ := newBase(Options{
		Knowledge: "k", Store: "vs", Version: "tags 1", Neutralise: clean, Timeout: time.Second,
		BaseURL: &url.URL{Scheme: "http", Host: "api.test"},
	})
	b.api.HTTP.Transport = tape{next}
	return b
}

func TestGenerationFollowsTheStore(t *testing.T) {
	state := ""
	b := recorded(func(r *http.Request) string {
		if strings.HasSuffix(r.URL.Path, "/files") {
			return `{"data":[]}`
		}
		return state
	})
	generation := func(s string) string {
		t.Helper()
		state = s
		if err := b.Refresh(t.Context()); (err != nil) != (s == "") {
			t.Fatal(err)
		}
		return b.Ref().Generation
	}
	const openai = `{"id":"vs","created_at":1,"last_active_at":%d,"status":"completed","usage_bytes":%d,"file_counts":{"completed":%d,"total":3},"metadata":{}}`
	first := generation(fmt.Sprintf(openai, 1, 10, 3))
	if got := generation(fmt.Sprintf(openai, 99, 10, 3)); got != first {
		t.Error("to be searched is no change")
	}
	if generation(fmt.Sprintf(openai, 1, 11, 3)) == first || generation(fmt.Sprintf(openai, 1, 10, 2)) == first {
		t.Error("a change does not show")
	}
	last := b.Ref().Generation
	if generation("") != last {
		t.Error("a look that failed lost the generation")
	}
	const sidenote = `{"id":"vs","created_at":%d,"metadata":{"sidenote_generation":"%s"}}`
	own := generation(fmt.Sprintf(sidenote, 1, "0a"))
	if own == last || generation(fmt.Sprintf(sidenote, 2, "0a")) != own || generation(fmt.Sprintf(sidenote, 1, "0b")) == own {
		t.Error("the generation is not the one that the Sidenote tells")
	}
	other := recorded(func(*http.Request) string { return fmt.Sprintf(sidenote, 1, "0a") })
	other.options.BaseURL = &url.URL{Scheme: "http", Host: "other.test"}
	if err := other.Refresh(t.Context()); err != nil || other.Ref().Generation != own {
		t.Error("the same content has another generation elsewhere")
	}
	other.options.Version = "tags 2"
	if err := other.Refresh(t.Context()); err != nil || other.Ref().Generation == own {
		t.Error("neutralised otherwise it has the same generation")
	}
}

// A store whose state was never read can be searched, and cached results expire; so do those of
// one whose state is read later.
func TestGenerationOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := recorded(func(*http.Request) string { return "" })
		<-time.After(window - time.Duration(time.Now().UnixNano())%window) // wait for the beginning of a window
		first := b.Ref()
		<-time.After(window - time.Nanosecond)
		if b.Ref() != first || len(first.Generation) != 64 {
			t.Error("changed within a window")
		}
		<-time.After(time.Nanosecond)
		if b.Ref() == first {
			t.Error("the same in the next window")
		}
	})
}

// The state is read on opening and then every half minute, until Close.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks []time.Duration
		start := time.Now()
		b := recorded(func(r *http.Request) string {
			if strings.HasSuffix(r.URL.Path, "/files") {
				return `{"data":[]}`
			}
			looks = append(looks, time.Since(start))
			return `{"id":"vs"}`
		})
		ctx, stop := context.WithCancel(t.Context())
		b.stop, b.ended = stop, make(chan struct{})
		go b.look(ctx)
		<-time.After(70 * time.Second)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		if fmt.Sprint(looks) != "[0s 30s 1m0s]" {
			t.Errorf("looked at %v", looks)
		}
	})
}

// The answer to a search updates the generation at once, unless a newer one is known.
func TestSearchTellsOfAChange(t *testing.T) {
	now := "0a"
	during := func() {}
	b := recorded(func(r *http.Request) string {
		if r.Method == http.MethodGet {
			return `{"id":"vs","metadata":{"sidenote_generation":"` + now + `"}}`
		}
		answer := `{"data":[{"file_id":"a","attributes":{"sidenote_generation":"` + now + `"},"content":[{"text":"x"}]}]}`
		during()
		return answer
	})
	refresh := func() {
		if err := b.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	refresh()
	now = "0b"
	res, err := b.Retrieve(t.Context(), retrieval.Query{Text: "x"})
	if err != nil || b.Ref().Generation != b.told("0b") || res.Bases[0] != b.Ref() {
		t.Errorf("%v, %v; now %v", res.Bases, err, b.Ref())
	}
	during = func() { now = "0c"; refresh() }
	res, err = b.Retrieve(t.Context(), retrieval.Query{Text: "x"})
	if err != nil || res.Bases[0].Generation != b.told("0b") || b.Ref().Generation != b.told("0c") {
		t.Errorf("an answer that came late: %v, %v; now %v", res.Bases, err, b.Ref())
	}
}
