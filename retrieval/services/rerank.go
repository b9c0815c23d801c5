package services

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval"
)

// A RerankDialect is an API dialect of rerank services. It is a closed list.
type RerankDialect string

// The dialects.
const (
	RerankCohere RerankDialect = "cohere" // POST /rerank of Cohere, Jina and others
	RerankTEI    RerankDialect = "tei"    // POST /rerank of Text Embeddings Inference
	RerankLLM    RerankDialect = "llm"    // chat completions, see RerankPrompts
)

const (
	rerankPatience  = 5 * time.Second
	maxRerankCalls  = 64      // concurrent
	maxRerankAnswer = 1 << 20 // bytes
	teiBatch        = 32      // documents per call: TEI's default limit
)

// RerankOptions configure a Reranker. BaseURL and Dialect are required; RerankLLM is not
// supported.
type RerankOptions struct {
	Name    string   // of the upstream, for messages
	BaseURL *url.URL // of the API
	Dialect RerankDialect
	Key     func() string // nil or "" sends none

	// Dial and TLS are as in RemoteOptions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config
	// Others are tried in order if no connection to BaseURL can be made.
	Others []Base

	// Changed is called with a line when the service stops answering, and when it answers again.
	// It may be nil, and may be called concurrently.
	Changed func(line string, bad bool)
}

// A Reranker is a client of one rerank service.
type Reranker struct {
	remote  *Remote
	health  Health
	dialect RerankDialect
	path    string
}

// NewReranker returns a Reranker. Call Close when done with it.
func NewReranker(o RerankOptions) *Reranker {
	c := &Reranker{dialect: o.Dialect, path: pathOf(o.BaseURL, o.Dialect)}
	c.health.Subject = fmt.Sprintf("rerank: upstream %s at %s", o.Name, o.BaseURL.Host)
	c.health.Changed = o.Changed
	c.remote = NewRemote(RemoteOptions{
		BaseURL: originOf(o.BaseURL), Key: o.Key, Dial: o.Dial, TLS: o.TLS, From: originOf(o.BaseURL) + c.path,
		Others:    RemoteBases(o.Others, func(u *url.URL) string { return originOf(u) + pathOf(u, o.Dialect) }),
		MaxAnswer: maxRerankAnswer, Calls: maxRerankCalls, HangAfter: rerankPatience, OnHang: c.health.Called,
		Probe: func(ctx context.Context) error {
			_, err := c.remote.Ask(ctx, http.MethodGet, c.path, nil) // a refusal is an answer, too
			return err
		},
	})
	return c
}

// pathOf returns the path of the rerank endpoint. TEI's paths have no version, but an upstream
// that is also used for embeddings may be configured with one.
func pathOf(base *url.URL, d RerankDialect) string {
	path := strings.TrimRight(base.EscapedPath(), "/")
	switch {
	case d == RerankTEI:
		path = strings.TrimSuffix(path, "/v1")
	case path == "":
		path = "/v1"
	}
	return path + "/rerank"
}

// Close stops the probes and closes idle connections.
func (c *Reranker) Close() { c.remote.Close() }

// Skips reports whether calls are skipped because the service does not answer.
func (c *Reranker) Skips() bool { return c.remote.Skips() }

// Trouble returns what does not work at present, a line each; nil if all is well.
func (c *Reranker) Trouble() []string { return c.health.Lines() }

// Scores returns a model's score of each document; model "" is the service's only one. The error
// is that of Remote.Call, or wraps retrieval.ErrBadScores.
func (c *Reranker) Scores(ctx context.Context, model, query string, documents []string) ([]float64, error) {
	if c.dialect != RerankTEI {
		return c.scores(ctx, model, query, documents)
	}
	batches := slices.Collect(slices.Chunk(documents, teiBatch))
	all := make([][]float64, len(batches))
	err := Each(ctx, len(batches), func(ctx context.Context, i int) (err error) {
		all[i], err = c.scores(ctx, model, query, batches[i])
		return err
	})
	return slices.Concat(all...), err
}

// Each runs n calls in parallel and returns the first error, which cancels the others. A panic in
// a call becomes its error.
func Each(ctx context.Context, n int, call func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() (err error) {
			defer func() {
				if broken := recover(); broken != nil {
					err = fmt.Errorf("panic: %v", broken)
				}
			}()
			return call(ctx, i)
		})
	}
	return g.Wait()
}

// scores makes one call.
func (c *Reranker) scores(ctx context.Context, model, query string, documents []string) ([]float64, error) {
	body, err := c.body(model, query, documents)
	if err != nil {
		return nil, fmt.Errorf("encode documents: %w", err)
	}
	ctx, span := c.remote.startSpan(ctx, rerankOperation, model)
	answer, err := c.remote.Call(ctx, http.MethodPost, c.path, body)
	endSpan(span, 0, err)
	if !errors.Is(err, ErrDown) && !errors.Is(err, ErrBusy) {
		c.health.Called(err)
	}
	if err != nil {
		return nil, fmt.Errorf("rerank: %w", err)
	}
	return c.read(answer, len(documents))
}

func (c *Reranker) body(model, query string, documents []string) ([]byte, error) {
	if c.dialect == RerankTEI {
		return json.Marshal(struct {
			Query    string   `json:"query"`
			Texts    []string `json:"texts"`
			Truncate bool     `json:"truncate"` // cut texts that are too long instead of failing
		}{query, documents, true})
	}
	return json.Marshal(struct {
		Model     string   `json:"model,omitempty"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
		TopN      int      `json:"top_n"`
	}{model, query, documents, len(documents)})
}

// A result is the score of one document, in any dialect.
type result struct {
	Index     *int     `json:"index"`
	Relevance *float64 `json:"relevance_score"`
	Score     *float64 `json:"score"`
}

// read decodes the scores of n documents.
func (c *Reranker) read(answer []byte, n int) ([]float64, error) {
	var list []result
	var object struct {
		Results []result `json:"results"`
	}
	if c.dialect == RerankTEI {
		if err := json.Unmarshal(answer, &list); err != nil {
			return nil, fmt.Errorf("%w: it is no list of scores", retrieval.ErrBadScores)
		}
	} else if err := json.Unmarshal(answer, &object); err != nil || object.Results == nil {
		return nil, fmt.Errorf("%w: it has no results", retrieval.ErrBadScores)
	} else {
		list = object.Results
	}
	scores := newScores(n)
	for _, r := range list {
		score := r.Relevance
		if c.dialect == RerankTEI {
			score = r.Score
		}
		if err := scores.set(r.Index, score); err != nil {
			return nil, err
		}
	}
	return scores.whole()
}

// scores are indexed by document; NaN means missing.
type scores []float64

func newScores(n int) scores {
	s := make(scores, n)
	for i := range s {
		s[i] = math.NaN()
	}
	return s
}

// set stores the score of one document. JSON numbers are neither NaN nor infinite.
func (s scores) set(index *int, score *float64) error {
	switch {
	case index == nil || score == nil:
		return fmt.Errorf("%w: a result lacks index or score", retrieval.ErrBadScores)
	case *index < 0 || *index >= len(s):
		return fmt.Errorf("%w: index %d of %d documents", retrieval.ErrBadScores, *index, len(s))
	case !math.IsNaN(s[*index]):
		return fmt.Errorf("%w: index %d comes twice", retrieval.ErrBadScores, *index)
	}
	s[*index] = *score
	return nil
}

// whole returns the scores, or an error if one is missing.
func (s scores) whole() ([]float64, error) {
	for i, score := range s {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("%w: index %d is missing", retrieval.ErrBadScores, i)
		}
	}
	return s, nil
}
