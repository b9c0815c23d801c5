package services

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sidenote/retrieval"
)

const (
	// DefaultEmbedBatch is the default number of inputs per request.
	DefaultEmbedBatch = 64
	// MaxEmbedBatch is OpenAI's limit.
	MaxEmbedBatch = 2048
	// batchTokens limits the tokens of all inputs of a request; OpenAI accepts 300,000.
	batchTokens = 100_000

	// numberBytes is the maximum length of a number of a vector in decimal, maxDimensions the
	// maximum number of dimensions; most models have less than half as many.
	numberBytes, maxDimensions = 24, 4096
	minAnswer, maxEmbedAnswer  = 8 << 20, 128 << 20

	passageTimeout = 2 * time.Minute // of a request for passages: on a CPU some take long
	probeInput     = "ready"
)

// EmbedOptions configure an Embedder. BaseURL, Model and Counter are required.
type EmbedOptions struct {
	BaseURL *url.URL      // of the API; a missing /v1 is added
	Key     func() string // the API key; nil or "" sends none

	// Dial and TLS are as in RemoteOptions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config
	// Others are tried in order if no connection to BaseURL can be made.
	Others []Base

	Model      string
	Dimensions int // requested number of dimensions; 0: the model's default

	// QueryPrefix and PassagePrefix are prepended to questions and passages; nil: as the model was
	// trained, see EmbedTraits.
	QueryPrefix, PassagePrefix *string
	InputTokens                int // longer inputs are cut; 0: the model's limit
	Batch                      int // inputs per request; 0: DefaultEmbedBatch

	Counter retrieval.Counter // of the model's tokens, if known

	// OnRequest is called after each request with its token count. Changed is called with a line
	// when something stops working, and again when it works. Both may be nil, and may be called
	// concurrently.
	OnRequest func(Use, EmbedResult, int)
	Changed   func(line string, bad bool)
}

// A Use is the kind of text to embed.
type Use string

// The uses.
const (
	Query   Use = "query"
	Passage Use = "passage"
)

// An EmbedResult is the outcome of a request.
type EmbedResult string

// The results.
const (
	EmbedOK      EmbedResult = "ok"
	EmbedTimeout EmbedResult = "timeout"
	EmbedLimited EmbedResult = "limited" // 429
	EmbedRefused EmbedResult = "refused" // another status below 500
	EmbedFailed  EmbedResult = "error"   // no answer, or a status of 500 or more
	EmbedInvalid EmbedResult = "invalid" // unusable answer
	EmbedSkipped EmbedResult = "skipped" // not sent: the breaker is open, or too many calls are running
)

// EmbedResults returns all results.
func EmbedResults() []EmbedResult {
	return []EmbedResult{EmbedOK, EmbedTimeout, EmbedLimited, EmbedRefused, EmbedFailed, EmbedInvalid, EmbedSkipped}
}

// An Embedder gets the vectors of one model from one service. It is safe for concurrent use.
type Embedder struct {
	options    EmbedOptions
	traits     EmbedTraits
	prefixes   map[Use]string
	remote     *Remote
	health     Health
	dimensions atomic.Int64 // of the passages; 0 before the first
	pause      func(ctx context.Context, d time.Duration) error
}

// NewEmbedder returns an Embedder. Call Close when done with it.
func NewEmbedder(o EmbedOptions) *Embedder {
	o.Batch = cmp.Or(o.Batch, DefaultEmbedBatch)
	if o.Key == nil {
		o.Key = func() string { return "" }
	}
	c := &Embedder{options: o, traits: EmbedTraitsOf(o.Model), pause: pause}
	c.prefixes = map[Use]string{Query: c.traits.Query, Passage: c.traits.Passage}
	if o.QueryPrefix != nil {
		c.prefixes[Query] = *o.QueryPrefix
	}
	if o.PassagePrefix != nil {
		c.prefixes[Passage] = *o.PassagePrefix
	}
	c.dimensions.Store(int64(o.Dimensions))
	c.health.Subject = fmt.Sprintf("embeddings: %s at %s", o.Model, o.BaseURL.Host)
	c.health.Changed = o.Changed
	base := embedPrefix(o.BaseURL)
	c.remote = NewRemote(RemoteOptions{
		BaseURL: base, Key: o.Key, Dial: o.Dial, TLS: o.TLS, OnHang: c.health.Called, From: base, Others: RemoteBases(o.Others, embedPrefix),
		MaxAnswer: min(max(minAnswer, o.Batch*cmp.Or(o.Dimensions, maxDimensions)*numberBytes), maxEmbedAnswer),
		Probe: func(ctx context.Context) error {
			_, _, err := c.ask(ctx, c.remote.Ask, []string{probeInput})
			return err
		},
	})
	return c
}

// embedPrefix returns the URL of an API with its version.
func embedPrefix(base *url.URL) string {
	text := strings.TrimSuffix(base.String(), "/")
	if !strings.HasSuffix(text, "/v1") {
		text += "/v1"
	}
	return text
}

// Close stops the probes and closes idle connections.
func (c *Embedder) Close() { c.remote.Close() }

// Trouble returns what does not work at present, a line each; nil if all is well.
func (c *Embedder) Trouble() []string { return c.health.Lines() }

// Skips reports whether questions are skipped because the service does not answer.
func (c *Embedder) Skips() bool { return c.remote.Skips() }

// Space returns the space of the passage vectors. The model's token limit is part of it only if it
// is configured, so that a release with better model data does not force re-embedding.
func (c *Embedder) Space() retrieval.Space {
	input := c.prefixes[Passage]
	if n := c.options.InputTokens; n > 0 {
		input += "|" + strconv.Itoa(n)
	}
	return retrieval.Space{Model: c.options.Model, Dimensions: c.options.Dimensions, Input: input}
}

// Embed returns the vectors of questions. It makes one attempt.
func (c *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, span := c.remote.startSpan(ctx, "embeddings", c.options.Model)
	vectors, tokens, err := c.ask(ctx, c.remote.Call, c.inputs(Query, texts))
	endSpan(span, tokens, err)
	c.note(Query, tokens, err)
	if err != nil {
		return nil, fmt.Errorf("embed question: %w", err)
	}
	return vectors, nil
}

// note counts a request and its outcome.
func (c *Embedder) note(use Use, tokens int, err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller left
	}
	result := resultOf(err)
	if result != EmbedSkipped {
		c.health.Called(err)
	}
	if c.options.OnRequest != nil {
		c.options.OnRequest(use, result, tokens)
	}
}

// resultOf returns the outcome of a request that ended with err.
func resultOf(err error) EmbedResult {
	var status *StatusError
	switch {
	case err == nil:
		return EmbedOK
	case errors.Is(err, ErrBusy), errors.Is(err, ErrDown):
		return EmbedSkipped
	case errors.Is(err, context.DeadlineExceeded):
		return EmbedTimeout
	case errors.Is(err, retrieval.ErrBadVectors):
		return EmbedInvalid
	case !errors.As(err, &status) || status.Status >= 500:
		return EmbedFailed
	case status.Status == http.StatusTooManyRequests:
		return EmbedLimited
	}
	return EmbedRefused
}

// A call is Remote.Call or Remote.Ask.
type call func(ctx context.Context, method, path string, body []byte) ([]byte, error)

// ask sends one request and checks the answer.
func (c *Embedder) ask(ctx context.Context, call call, inputs []string) (vectors [][]float32, tokens int, err error) {
	body, err := json.Marshal(struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Encoding   string   `json:"encoding_format"`
		Dimensions int      `json:"dimensions,omitempty"`
	}{c.options.Model, inputs, "base64", c.options.Dimensions})
	if err != nil {
		return nil, 0, fmt.Errorf("encode inputs: %w", err)
	}
	text, err := call(ctx, http.MethodPost, "/embeddings", body)
	if err != nil {
		return nil, 0, err
	}
	vectors, used, err := decode(text, len(inputs), c.options.Key())
	if err == nil {
		err = c.sameLength(vectors)
	}
	return vectors, c.used(used, inputs), err
}

// Expect sets the number of dimensions of the passage vectors already stored; 0 has no effect. A
// number that is configured or known is kept.
func (c *Embedder) Expect(dimensions int) { c.dimensions.CompareAndSwap(0, int64(dimensions)) }

// sameLength returns an error for vectors of another length than is requested or passages have,
// since they cannot be compared.
func (c *Embedder) sameLength(vectors [][]float32) error {
	want := int(c.dimensions.Load())
	if want == 0 && len(vectors) > 0 {
		want = len(vectors[0])
	}
	for _, v := range vectors {
		if len(v) != want {
			return &DimensionError{Got: len(v), Want: want}
		}
	}
	return nil
}

// A DimensionError reports vectors of another length than before.
type DimensionError struct{ Got, Want int }

func (e *DimensionError) Error() string {
	return fmt.Sprintf("answered with vectors of %d dimensions, not %d; if another model has taken this name, set embeddings.dimensions to %d", e.Got, e.Want, e.Got)
}

// Is makes the error match retrieval.ErrBadVectors.
func (e *DimensionError) Is(err error) bool { return err == retrieval.ErrBadVectors }

// used returns the tokens of a request: the service's number if it is plausible, else a count of
// the inputs.
func (c *Embedder) used(said int, inputs []string) int {
	most := 0
	for _, text := range inputs {
		most += len(text) + 16
	}
	if said > 0 && said <= most {
		return said
	}
	return c.count(inputs)
}

func (c *Embedder) count(inputs []string) (sum int) {
	for _, text := range inputs {
		n, _ := c.options.Counter.Count(text)
		sum += n
	}
	return sum
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
