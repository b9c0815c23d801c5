package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

const (
	defaultResults = 10
	maxQueries     = 16 // in one request
	storeWait      = 10 * time.Second
)

// A storeSearch is the body of POST /v1/vector_stores/{id}/search. As at OpenAI, unknown fields
// are refused: one of them could be a filter.
type storeSearch struct {
	Query          queries         `json:"query"`
	MaxNumResults  *int            `json:"max_num_results"` // 1 to 50
	Filters        json.RawMessage `json:"filters"`
	RankingOptions *struct {
		Ranker         *string  `json:"ranker"`          // ignored: there is only one ranking
		ScoreThreshold *float64 `json:"score_threshold"` // minimum score, 0 to 1
		HybridSearch   *struct {
			EmbeddingWeight *float64 `json:"embedding_weight"` // ignored: the base decides
			TextWeight      *float64 `json:"text_weight"`      // ignored: the base decides
		} `json:"hybrid_search"`
	} `json:"ranking_options"`
	RewriteQuery *bool `json:"rewrite_query"` // ignored: queries are not rewritten
}

// queries is a string or a list of strings.
type queries []string

// UnmarshalJSON decodes a string or a list of strings.
func (q *queries) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*q = queries{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("query is neither a string nor a list of strings")
	}
	*q = many
	return nil
}

// A storePage is the answer to a storeSearch.
type storePage struct {
	Object      string     `json:"object"`       // "vector_store.search_results.page"
	SearchQuery []string   `json:"search_query"` // the queries of the request
	Data        []storeHit `json:"data"`         // best first
	HasMore     bool       `json:"has_more"`     // false: there is one page
	NextPage    *string    `json:"next_page"`
}

type storeHit struct {
	FileID     string         `json:"file_id"`
	Filename   string         `json:"filename"`
	Score      float64        `json:"score"` // retrieval.Relevance: 0.5 is the base's floor
	Attributes map[string]any `json:"attributes"`
	Content    []storeText    `json:"content"`

	chunk int
}

type storeText struct {
	Type string `json:"type"` // "text"
	Text string `json:"text"`
}

// searchStore searches one base for one or several queries. It returns everything that the engine
// finds, without the selection for chat requests: the caller may want to select among the results
// of several bases.
func (h *Handler) searchStore(ctx *fasthttp.RequestCtx, who explain.Viewer, id string, store explain.Store) error {
	s, err := readStoreSearch(ctx)
	if err != nil {
		return err
	}
	asked, err := explain.ReadFilter(s.Filters)
	if err != nil {
		return err
	}
	limit, least := defaultResults, 0.0
	if s.MaxNumResults != nil {
		limit = *s.MaxNumResults
	}
	if r := s.RankingOptions; r != nil && r.ScoreThreshold != nil {
		least = *r.ScoreThreshold
	}
	search, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	var hits []storeHit
	for _, text := range s.Query {
		q := retrieval.Query{Tenant: who.Tenant, Filter: filter.AllOf(who.Filter, asked), Bases: []retrieval.Ref{{Knowledge: id}}, Text: text,
			Settings: retrieval.Settings{TopK: limit, NumCandidates: limit}}
		res, err := h.Library.Candidates(search, q)
		if err != nil {
			return &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: fmt.Sprintf("The search failed: %s.", res.Reason), Err: err}
		}
		hits = append(hits, hitsOf(res, store, q.Filter)...)
	}
	return writeJSON(ctx, fasthttp.StatusOK, storePage{Object: "vector_store.search_results.page", SearchQuery: s.Query, Data: merge(hits, least, limit)})
}

func readStoreSearch(ctx *fasthttp.RequestCtx) (s storeSearch, err error) {
	if err := decodeSearch(ctx, "a search", &s); err != nil {
		return s, err
	}
	if len(s.Query) < 1 || len(s.Query) > maxQueries {
		return s, optionError("query", "query has %d texts; it takes 1 to %d.", len(s.Query), maxQueries)
	}
	for _, text := range s.Query {
		if strings.TrimSpace(text) == "" || len(text) > explain.MaxQuery {
			return s, optionError("query", "query has %d bytes; it needs text, and at most %d bytes.", len(text), explain.MaxQuery)
		}
	}
	if n := s.MaxNumResults; n != nil && (*n < 1 || *n > explain.MaxTopK) {
		return s, optionError("max_num_results", "max_num_results is %d; it goes from 1 to %d.", *n, explain.MaxTopK)
	}
	if r := s.RankingOptions; r != nil && r.ScoreThreshold != nil && (*r.ScoreThreshold < 0 || *r.ScoreThreshold > 1) {
		return s, optionError("ranking_options.score_threshold", "score_threshold is %v; it goes from 0 to 1.", *r.ScoreThreshold)
	}
	return s, nil
}

// hitsOf converts the sources of one base's answer to OpenAI's form. The engine has applied filter
// already; it is applied again because the current attributes are shown, which may have changed.
func hitsOf(res retrieval.Result, store explain.Store, filter *filter.Filter) []storeHit {
	generation := ""
	if len(res.Bases) == 1 {
		generation = res.Bases[0].Generation
	}
	hits := make([]storeHit, 0, len(res.Sources))
	for i := range res.Sources {
		src := &res.Sources[i]
		file, ok := store.Find(src.Doc)
		if filter != nil && store.File != nil && !(ok && filter.Match(file.Attributes)) {
			continue
		}
		attributes := map[string]any{attrName: src.Name, attrChunk: src.Chunk, attrGeneration: generation}
		if src.Section != "" {
			attributes[attrSection] = src.Section
		}
		if res.Floor > 0 {
			attributes[attrFloor] = res.Floor
		}
		hits = append(hits, storeHit{
			FileID: src.Doc, Filename: src.Doc, Score: retrieval.Relevance(src.Score, res.Floor),
			Attributes: attributesOf(file, attributes), Content: []storeText{{Type: "text", Text: src.Text}}, chunk: src.Chunk,
		})
	}
	return hits
}

// merge returns the best limit hits whose score is at least least. A chunk found by several
// queries gets its best score.
func merge(hits []storeHit, least float64, limit int) []storeHit {
	slices.SortStableFunc(hits, func(a, b storeHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.FileID, b.FileID), cmp.Compare(a.chunk, b.chunk))
	})
	type chunk struct {
		file string
		at   int
	}
	seen := map[chunk]bool{}
	out := make([]storeHit, 0, limit)
	for _, hit := range hits {
		c := chunk{hit.FileID, hit.chunk}
		if len(out) == limit || hit.Score < least {
			break
		}
		if !seen[c] {
			seen[c] = true
			out = append(out, hit)
		}
	}
	return out
}
