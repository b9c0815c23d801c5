package admin

import (
	"cmp"
	"context"
	"encoding/base64"
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
	RewriteQuery *bool        `json:"rewrite_query"` // ignored: queries are not rewritten
	Joint        *jointSearch `json:"sidenote"`      // from another Sidenote; not at OpenAI
}

// A jointSearch asks for the candidates of one query in all bases of the path, whose ids are
// separated by commas, ranked as one base. A base that the caller may not see is left out, as if
// it did not exist; the answer says which ones were searched.
type jointSearch struct {
	Turns       []jointTurn `json:"turns"` // earlier turns that join the query, last first
	DenseWeight float64     `json:"dense_weight"`
	Fusion      string      `json:"fusion"` // "" or "rrf"
}

type jointTurn struct {
	Text   string  `json:"text"`
	Weight float64 `json:"weight"`
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

	Joint *jointAnswer `json:"sidenote,omitempty"` // of a jointSearch
}

// A jointAnswer says how a jointSearch went.
type jointAnswer struct {
	Bases       []explain.Searched `json:"bases"`           // that were searched
	Least       float64            `json:"least,omitempty"` // retrieval.Result.Least
	Reason      string             `json:"reason,omitempty"`
	Partial     bool               `json:"partial,omitempty"`
	Provisional bool               `json:"provisional,omitempty"`
	Degraded    string             `json:"degraded,omitempty"`
	Embed       string             `json:"embed,omitempty"`
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

// searchStores searches one base for one or several queries, or several bases for one. It returns
// everything that the engine finds, without the selection for chat requests: the caller may want to
// select among the results of several bases.
func (r request) searchStores(ctx *fasthttp.RequestCtx, id string) error {
	who, err := r.viewer(ctx)
	if err != nil {
		return err
	}
	stores := map[string]explain.Store{}
	for one := range strings.SplitSeq(id, ",") {
		if store, ok := r.storeFor(&who, one); ok {
			stores[one] = store
		}
	}
	if len(stores) == 0 {
		failStore(ctx, &who, id)
		return nil
	}
	s, err := readStoreSearch(ctx, stores, strings.Contains(id, ","))
	if err != nil {
		return err
	}
	asked, err := explain.ReadFilter(s.Filters)
	if err != nil {
		return err
	}
	q := retrieval.Query{Tenant: who.Tenant, Filter: filter.AllOf(who.Filter, asked)}
	for id := range stores {
		q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
	}
	limit, least := defaultResults, 0.0
	if s.MaxNumResults != nil {
		limit = *s.MaxNumResults
	}
	q.Settings.TopK, q.Settings.NumCandidates = limit, limit
	if o := s.RankingOptions; o != nil && o.ScoreThreshold != nil {
		least = *o.ScoreThreshold
	}
	search, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	page := storePage{Object: "vector_store.search_results.page", SearchQuery: s.Query}
	var hits []storeHit
	for _, q.Text = range s.Query {
		s.Joint.setOn(&q)
		res, err := r.Library.Candidates(search, q)
		if err != nil {
			return &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: fmt.Sprintf("The search failed: %s.", res.Reason), Err: err}
		}
		hits = append(hits, hitsOf(&res, stores, q.Filter, s.Joint != nil)...)
		if s.Joint != nil {
			page.Data, page.Joint = hits, jointAnswerOf(&res)
			return writeJSON(ctx, fasthttp.StatusOK, page)
		}
	}
	page.Data = merge(hits, least, limit)
	return writeJSON(ctx, fasthttp.StatusOK, page)
}

// setOn sets what the search says on a query.
func (j *jointSearch) setOn(q *retrieval.Query) {
	if j == nil {
		return
	}
	q.Settings.DenseWeight, q.Settings.Fusion = j.DenseWeight, retrieval.Fusion(j.Fusion)
	for _, t := range j.Turns {
		q.Previous = append(q.Previous, retrieval.Turn(t))
	}
}

func jointAnswerOf(res *retrieval.Result) *jointAnswer {
	a := &jointAnswer{
		Bases: []explain.Searched{}, Least: res.Least, Reason: string(res.Reason), Partial: res.Partial, Provisional: res.Provisional,
		Degraded: string(res.Degraded), Embed: string(res.EmbedFailure),
	}
	for _, ref := range res.Bases {
		a.Bases = append(a.Bases, explain.Searched{ID: ref.Knowledge, Generation: ref.Generation})
	}
	return a
}

// readStoreSearch reads a search of some bases; several says that the path names more than one.
func readStoreSearch(ctx *fasthttp.RequestCtx, stores map[string]explain.Store, several bool) (s storeSearch, err error) {
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
	return s, s.checkJoint(stores, several)
}

// checkJoint returns an error if these bases cannot be searched together, or in this way.
func (s *storeSearch) checkJoint(stores map[string]explain.Store, several bool) error {
	switch j := s.Joint; {
	case j == nil && several:
		return optionError("sidenote", "Several vector stores are searched together only with the field sidenote.")
	case j == nil:
		return nil
	case len(s.Query) != 1:
		return optionError("query", "query has %d texts; with the field sidenote it takes one.", len(s.Query))
	case j.Fusion != string(retrieval.FusionScores) && j.Fusion != string(retrieval.FusionRanks):
		return optionError("sidenote.fusion", "fusion is %q; it can be %q.", j.Fusion, retrieval.FusionRanks)
	case j.DenseWeight < 0 || j.DenseWeight > 1:
		return optionError("sidenote.dense_weight", "dense_weight is %v; it goes from 0 to 1.", j.DenseWeight)
	}
	said := 0
	for _, t := range s.Joint.Turns {
		if said += len(t.Text); !(t.Weight > 0 && t.Weight <= 1) {
			return optionError("sidenote.turns", "A turn has weight %v; it goes from 0 to 1.", t.Weight)
		}
	}
	if said > explain.MaxQuery {
		return optionError("sidenote.turns", "turns have %d bytes; they have at most %d bytes.", said, explain.MaxQuery)
	}
	for id, store := range stores {
		if !store.Joint {
			return optionError("sidenote", "The vector store %q is on another server; it cannot be searched together with others.", id)
		}
	}
	return nil
}

// hitsOf converts the sources of an answer to OpenAI's form; joint adds what another Sidenote uses.
// The engine has applied filter already; it is applied again because the current attributes are
// shown, which may have changed.
func hitsOf(res *retrieval.Result, stores map[string]explain.Store, filter *filter.Filter, joint bool) []storeHit {
	generations := map[string]string{}
	for _, ref := range res.Bases {
		generations[ref.Knowledge] = ref.Generation
	}
	hits := make([]storeHit, 0, len(res.Sources))
	for i := range res.Sources {
		src := &res.Sources[i]
		store := stores[src.Knowledge]
		file, ok := store.Find(src.Doc)
		if filter != nil && store.File != nil && !(ok && filter.Match(file.Attributes)) {
			continue
		}
		attributes := map[string]any{attrName: src.Name, attrChunk: src.Chunk, attrGeneration: generations[src.Knowledge]}
		if src.Section != "" {
			attributes[attrSection] = src.Section
		}
		if res.Floor > 0 {
			attributes[attrFloor] = res.Floor
		}
		if joint {
			attributes[attrKnowledge], attributes[attrScore] = src.Knowledge, src.Score
			if src.Arm != retrieval.ArmNone {
				attributes[attrArm] = src.Arm
			}
			attributes[attrSketch] = base64.StdEncoding.EncodeToString([]byte(src.Sketch))
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
