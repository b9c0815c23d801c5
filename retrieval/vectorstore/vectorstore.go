// Package vectorstore is the engine for external knowledge bases: it searches an API in the shape
// of OpenAI's vector stores, which OpenAI, LiteLLM and a central Sidenote offer. From a Sidenote
// it gets the same sources as a search there, with scores and floor; from any other API scores
// from 0 to 1 are used unchanged, and there is no floor.
//
// Answers are untrusted: they are limited in size and checked against the filter that was sent,
// texts are neutralised, scores must be finite, and redirects are not followed. Any failure is an
// error that wraps retrieval.ErrUnavailable, and no call takes longer than its deadline.
package vectorstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// DefaultTimeout is used if Options.Timeout is 0.
const DefaultTimeout = 10 * time.Second

// lookEvery is the interval between two reads of a store's state.
const lookEvery = 30 * time.Second

// maxResults is the API's maximum number of results.
const maxResults = 50

// Options configure a Base. Knowledge, Store, BaseURL and Neutralise are required.
type Options struct {
	Knowledge string        // id of the base in Sidenote, [a-z0-9_-]{1,64}
	Store     string        // id of the store in the API
	BaseURL   *url.URL      // of the API; a missing /v1 is added
	Key       func() string // the API key; nil or "" sends none

	// Dial and TLS are as in services.RemoteOptions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config
	// Others are tried in order if no connection to BaseURL can be made.
	Others []services.Base

	// Neutralise defuses everything in a text that looks like Sidenote's own tags. Version
	// identifies it, and is part of the generation: replicas that neutralise differently must not
	// share results.
	Neutralise func(text string) string
	Version    string

	Timeout time.Duration // of a call, unless its context ends earlier

	// Looked is called with the number of files and bytes in the store each time its state was
	// read. Changed is called with a line when something stops working, and when it works again.
	// Both may be nil, and may be called concurrently.
	Looked  func(files int, bytes int64)
	Changed func(line string, bad bool)
}

// A Base is a knowledge base in an external store.
type Base struct {
	options Options
	api     api
	health  services.Health

	mu    sync.Mutex
	known state // of the store

	asked func()        // called after the first read of the state
	first chan struct{} // closed by asked
	stop  context.CancelFunc
	ended chan struct{} // closed when look has ended
}

// Open returns the base and starts reading the state of its store in the background; the base can
// be searched at once. Call Close when done with it.
func Open(o Options) *Base {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	b, ctx := newBase(o)
	go b.look(ctx)
	return b
}

// newBase returns a base whose state has not been read yet; ctx ends when the base is closed.
func newBase(o Options) (b *Base, ctx context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	b = &Base{options: o, first: make(chan struct{}), stop: stop, ended: make(chan struct{})}
	b.asked = sync.OnceFunc(func() { close(b.first) })
	b.health.Subject = fmt.Sprintf("knowledge %s: vector store %s at %s", o.Knowledge, o.Store, o.BaseURL.Host)
	b.health.Every, b.health.Changed = lookEvery, o.Changed
	b.api = newAPI(services.NewRemote(services.RemoteOptions{
		BaseURL: apiURL(o.BaseURL), Key: o.Key, Dial: o.Dial, TLS: o.TLS, OnHang: b.health.Called,
		From: apiURL(o.BaseURL), Others: services.RemoteBases(o.Others, apiURL),
		Probe: func(ctx context.Context) error { _, err := b.api.state(ctx); return err },
	}), o.Store)
	return b, ctx
}

// Close stops reading the state, and closes idle connections.
func (b *Base) Close() error {
	b.stop()
	<-b.ended
	b.api.Close()
	return nil
}

// FirstRead returns a channel that is closed after the first attempt to read the store's state.
func (b *Base) FirstRead() <-chan struct{} { return b.first }

// Trouble returns what does not work at present, a line each; nil if all is well.
func (b *Base) Trouble() []string { return b.health.Lines() }

// Answered reports whether the store has ever answered.
func (b *Base) Answered() bool { return b.health.Answered() }

// Skips reports whether searches are skipped because the store does not answer.
func (b *Base) Skips() bool { return b.api.Skips() }

// Ref returns the base's id and current generation; see generation.go.
func (b *Base) Ref() retrieval.Ref { return b.ref(b.state()) }

func (b *Base) ref(s state) retrieval.Ref {
	return retrieval.Ref{Knowledge: b.options.Knowledge, Generation: b.generation(s, time.Now())}
}

// Retrieve searches the store for the best q.Settings.NumCandidates chunks, at most 50. Except for a
// Sidenote, which is asked as by Stores, the API has no weights, so the turns of q.Previous become
// part of the question, oldest first.
func (b *Base) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	start, before := time.Now(), b.state()
	if before.joint {
		return joint{b}.retrieve(ctx, &q)
	}
	res := retrieval.Result{Bases: []retrieval.Ref{b.ref(before)}, Cache: retrieval.CacheOff}
	text := question(q)
	if text == "" {
		res.Reason = retrieval.ReasonNoQueryTerms
		return res, nil
	}
	found, err := b.search(ctx, request{Query: text, MaxNumResults: limitOf(&q), Filters: q.Filter}, b.options.Store)
	res.Took = time.Since(start)
	if err != nil {
		return failed(res, err, "vector store "+b.options.Store)
	}
	if found.generation != "" {
		now := state{digest: b.told(found.generation)}
		b.adopt(now, before)
		res.Bases[0] = b.ref(now)
	}
	for i := range found.sources {
		found.sources[i].Knowledge = b.options.Knowledge
	}
	res.Partial = found.mixed
	found.addTo(&res)
	return res, nil
}

// limitOf returns how many results to ask for.
func limitOf(q *retrieval.Query) int {
	if n := q.Settings.NumCandidates; n > 0 && n < maxResults {
		return n
	}
	return maxResults
}

// failed returns the result of a search that failed.
func failed(res retrieval.Result, err error, what string) (retrieval.Result, error) {
	res.Reason = retrieval.ReasonError
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		res.Reason = retrieval.ReasonTimeout
	}
	return res, fmt.Errorf("search %s: %w: %w", what, retrieval.ErrUnavailable, err)
}

// search makes one search, and records in health what the outcome says about the store.
func (b *Base) search(ctx context.Context, r request, stores ...string) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	body, err := b.api.search(ctx, r, stores...)
	var f found
	if errors.Is(err, services.ErrDown) || errors.Is(err, services.ErrBusy) {
		return f, err // nothing was sent
	}
	if err == nil {
		f, err = decodePage(body, r.MaxNumResults, r.Filters, b.options.Neutralise)
	}
	if r.Filters != nil && badRequest(err) {
		b.health.Cannot(refuses) // says nothing about other searches
		return f, err
	}
	b.health.Called(err)
	if f.dropped > 0 {
		b.health.Cannot(strays)
	}
	return f, err
}

// question returns the text to search for; "" if q.Text has neither letters nor digits, whatever
// was said before.
func question(q retrieval.Query) string {
	if !strings.ContainsFunc(q.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return ""
	}
	if len(q.Previous) == 0 {
		return q.Text
	}
	lines := make([]string, 0, len(q.Previous)+1)
	for _, turn := range slices.Backward(q.Previous) {
		lines = append(lines, turn.Text)
	}
	return strings.Join(append(lines, q.Text), "\n")
}
