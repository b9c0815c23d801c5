package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/planning"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

const (
	maxTopK  = 50       // as OpenAI's max_num_results
	maxQuery = 64 << 10 // bytes
)

// A searchRequest is the body of POST /v1/search.
type searchRequest struct {
	Query     string          `json:"query"`
	Turns     []string        `json:"turns"`     // what the user said before, first turn first
	Knowledge []string        `json:"knowledge"` // absent: all that the tenant may ask
	Filters   json.RawMessage `json:"filters"`   // beside the policy's
	TopK      *int            `json:"top_k"`     // absent: as the policy has it
	Stages    bool            `json:"stages"`    // ask the planner, reranker and grader of ?tenant=, who pays
}

// A SearchAnswer is its answer, and that of sidenote search --json.
type SearchAnswer struct {
	Object    string             `json:"object"` // "list"
	Data      []FoundSource      `json:"data"`   // best first
	Excluded  []ExcludedSource   `json:"excluded"`
	Stages    []Stage            `json:"stages,omitempty"` // of the command only
	Reason    retrieval.Reason   `json:"reason,omitempty"` // why there is nothing, or something missing
	Partial   bool               `json:"partial"`
	Degraded  retrieval.Stage    `json:"degraded,omitempty"` // the stage that the search did without
	Knowledge []explain.Searched `json:"knowledge,omitzero"` // nil in the command
	Retrieved int                `json:"total_chunks_retrieved"`
	Unique    int                `json:"unique_chunks_after_dedup"`
	*retrieval.Planned
	Reranked *retrieval.Reranked  `json:"rerank,omitempty"`
	Graded   *retrieval.Graded    `json:"grade,omitempty"`
	Cache    retrieval.CacheState `json:"cache,omitempty"`
	TookMS   float64              `json:"took_ms"`
	Floor    float64              `json:"floor,omitempty"` // least score of what the embedded bases answer; of the command's --explain
	Terms    []Term               `json:"terms,omitempty"` // that were looked for in them, the weightiest first; likewise
}

// A Term is a word as an index has it, with what it adds to a score; 0 where no text has it.
type Term struct {
	Text  string  `json:"term"`
	Score float64 `json:"score"`
}

// A FoundSource is a chunk that was found.
type FoundSource struct {
	Knowledge string          `json:"kb_id"`
	Doc       string          `json:"doc_id"`
	Chunk     int             `json:"chunk"`
	Name      string          `json:"name"`
	Section   string          `json:"section,omitempty"`
	Score     float64         `json:"score"`
	Relevance float64         `json:"relevance"`              // of the score among those of all bases, from 0 to 1
	Arm       retrieval.Arm   `json:"arm,omitempty"`          // that speaks most for it, where its base is searched by several
	Reranked  *float64        `json:"rerank_score,omitempty"` // that a reranker gave it; nil where none did
	Grade     retrieval.Grade `json:"grade,omitempty"`        // where it was graded
	Graded    *float64        `json:"grade_score,omitempty"`  // that a grader gave it; nil where none did
	Text      string          `json:"text,omitempty"`

	Words  float64 `json:"words_score,omitempty"` // of a base with vectors: the score by words; of the command's --explain
	Cosine float64 `json:"cosine,omitempty"`      // likewise: of its vector with that of the question
	// DenseWeight is what that weighed, likewise.
	DenseWeight float64 `json:"dense_weight,omitempty"`

	Terms      []Term   `json:"terms,omitempty"`          // that make the score; of the command's --explain
	Document   float64  `json:"document_score,omitempty"` // what the document as a whole adds, below 0 for a further chunk of it; likewise
	Duplicates []string `json:"duplicates,omitempty"`     // chunks that it stands for, as kb_id/doc_id#chunk; likewise
}

// An ExcludedSource is a chunk that was found and left out.
type ExcludedSource struct {
	FoundSource
	Reason retrieval.ExcludeReason `json:"reason"`
	Detail string                  `json:"detail,omitempty"`
}

// A Stage is how many candidates one stage of a search left.
type Stage struct {
	Name string `json:"name"`
	Left int    `json:"left"`
}

// search asks knowledge bases a question: those of the tenant of ?tenant=, by
// its settings, or all by default ones where no tenant is named.
func (h *Handler) search(ctx *fasthttp.RequestCtx) error {
	who, err := h.viewer(ctx)
	if err != nil {
		return err
	}
	q := retrieval.Query{Tenant: who.tenant, Filter: who.filter, Settings: who.settings}
	stages, err := readSearch(ctx, &q, who.bases)
	if err != nil {
		return err
	}
	if stages {
		if err := h.addStages(ctx, &q); err != nil {
			return err
		}
	}
	res, err := h.Rewriter.Retriever.Retrieve(context.Background(), q)
	if err != nil {
		return &proxy.Error{Reason: rewrite.ReasonUnavailable, Message: fmt.Sprintf("The search failed: %s.", res.Reason), Err: err}
	}
	return writeJSON(ctx, fasthttp.StatusOK, searchAnswerOf(res))
}

// addStages lets the stages of a tenant's policy take part in a search, as they do in a dry run.
func (h *Handler) addStages(ctx *fasthttp.RequestCtx, q *retrieval.Query) error {
	if !ctx.QueryArgs().Has("tenant") {
		return optionError("stages", "The stages are those of a tenant's policy; name a tenant by ?tenant=.")
	}
	tenant, err := h.tenant(ctx)
	if err != nil {
		return err
	}
	policy, earlier := tenant.Rewrite, make([]string, len(q.Previous))
	for i, turn := range q.Previous {
		earlier[i] = turn.Text
	}
	h.Planners.Help(&policy, planning.DryRun(&policy, "", &tenant.Budget))
	policy.AddStages(q, "", earlier)
	return nil
}

// readSearch reads a search's body into q, which it narrows; allowed are the bases
// it may name. stages tells whether those of the policy take part.
func readSearch(ctx *fasthttp.RequestCtx, q *retrieval.Query, allowed []string) (stages bool, err error) {
	var s searchRequest
	if err := decodeSearch(ctx, &s); err != nil {
		return false, err
	}
	if strings.TrimSpace(s.Query) == "" || len(s.Query) > maxQuery {
		return false, optionError("query", "query has %d bytes; it needs text, and at most %d bytes.", len(s.Query), maxQuery)
	}
	said := 0
	for _, turn := range s.Turns {
		said += len(turn)
	}
	if said > maxQuery {
		return false, optionError("turns", "turns have %d bytes; they have at most %d bytes.", said, maxQuery)
	}
	if s.TopK != nil {
		if *s.TopK < 1 || *s.TopK > maxTopK {
			return false, optionError("top_k", "top_k is %d; it goes from 1 to %d.", *s.TopK, maxTopK)
		}
		q.Settings.TopK = *s.TopK
		q.Settings.NumCandidates = max(q.Settings.NumCandidates, *s.TopK)
	}
	asked, err := readFilter(s.Filters)
	if err != nil {
		return false, err
	}
	q.Text, q.Previous, q.Filter = s.Query, retrieval.Turns(s.Turns), filter.AllOf(q.Filter, asked)
	if s.Knowledge == nil {
		s.Knowledge = allowed
	}
	for _, id := range s.Knowledge {
		if !slices.Contains(allowed, id) {
			return false, optionError("knowledge", "There is no knowledge base %q; there are %s.", id, strings.Join(allowed, ", "))
		}
		if ref := (retrieval.Ref{Knowledge: id}); !slices.Contains(q.Bases, ref) {
			q.Bases = append(q.Bases, ref)
		}
	}
	return s.Stages, nil
}

// decodeSearch decodes the body of a search. Unknown fields are refused: one of them could
// be a filter.
func decodeSearch(ctx *fasthttp.RequestCtx, to any) error {
	b, err := body(ctx)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return &proxy.Error{Reason: rewrite.ReasonNotJSON, Message: "The body is not a search: " + jsonProblem(err) + "."}
	}
	if _, err := d.Token(); err != io.EOF {
		return &proxy.Error{Reason: rewrite.ReasonNotJSON, Message: "Something stands after the search in the body."}
	}
	return nil
}

// searchAnswerOf is the answer of the admin port: excluded sources come without their texts.
func searchAnswerOf(res retrieval.Result) SearchAnswer {
	a := NewSearchAnswer(res)
	for i := range a.Excluded {
		a.Excluded[i].Text = ""
	}
	a.Cache, a.Knowledge = res.Cache, make([]explain.Searched, 0, len(res.Bases))
	for _, ref := range res.Bases {
		a.Knowledge = append(a.Knowledge, explain.Searched{ID: ref.Knowledge, Generation: ref.Generation})
	}
	return a
}

// NewSearchAnswer is a result with the texts of all sources.
func NewSearchAnswer(res retrieval.Result) SearchAnswer {
	a := SearchAnswer{
		Object: "list", Data: make([]FoundSource, len(res.Sources)), Excluded: make([]ExcludedSource, len(res.Excluded)),
		Reason: res.Reason, Partial: res.Partial, Degraded: res.Degraded, Retrieved: res.Retrieved, Unique: res.Unique, TookMS: report.Milliseconds(res.Took),
		Planned: res.Planned, Reranked: res.Reranked, Graded: res.Graded,
	}
	for i, s := range res.Sources {
		a.Data[i] = foundSource(s)
	}
	for i, x := range res.Excluded {
		a.Excluded[i] = ExcludedSource{foundSource(x.Source()), x.Reason, x.Why()}
	}
	return a
}

func foundSource(s retrieval.Source) FoundSource {
	return FoundSource{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Score: s.Score, Relevance: s.Relevance, Arm: s.Arm, Reranked: s.RerankScore, Grade: s.Grade, Graded: s.GradeScore, Text: s.Text}
}
