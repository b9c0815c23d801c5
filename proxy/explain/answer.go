package explain

import (
	"sidenote/proxy/report"
	"sidenote/retrieval"
)

// A Lookup is the result of a search in JSON: the answer of POST /v1/search and of sidenote search
// --json.
type Lookup struct {
	Object    string           `json:"object"` // "list"
	Data      []LookupSource   `json:"data"`   // best first
	Excluded  []Excluded       `json:"excluded"`
	Stages    []LookupStage    `json:"stages,omitempty"` // set by the command, and in explained searches
	Reason    retrieval.Reason `json:"reason,omitempty"` // why there are no sources, or why some may be missing
	Partial   bool             `json:"partial"`
	Degraded  retrieval.Stage  `json:"degraded,omitempty"` // the stage that was skipped after a failure
	Knowledge []Searched       `json:"knowledge,omitzero"` // the bases searched; nil in the command
	Retrieved int              `json:"total_chunks_retrieved"`
	Unique    int              `json:"unique_chunks_after_dedup"`
	*retrieval.Planned
	Reranked *retrieval.Reranked  `json:"rerank,omitempty"`
	Graded   *retrieval.Graded    `json:"grade,omitempty"`
	Cache    retrieval.CacheState `json:"cache,omitempty"`
	TookMS   float64              `json:"took_ms"`
	Floor    float64              `json:"floor,omitempty"` // in explained searches: minimum score of the embedded bases
	Terms    []LookupTerm         `json:"terms,omitempty"` // in explained searches: the query terms of the embedded bases, highest score first
}

// A LookupTerm is a term as indexed and its contribution to a score; 0 if no text contains it.
type LookupTerm struct {
	Text  string  `json:"term"`
	Typed string  `json:"typed,omitempty"` // the word that the term was searched for, as no text has it
	Score float64 `json:"score"`
}

// A LookupSource is a chunk found by a search.
type LookupSource struct {
	Knowledge string          `json:"kb_id"`
	Doc       string          `json:"doc_id"`
	Chunk     int             `json:"chunk"`
	Name      string          `json:"name"`
	Section   string          `json:"section,omitempty"`
	Date      string          `json:"date,omitempty"` // if it is one of several versions of a document
	Score     float64         `json:"score"`
	Relevance float64         `json:"relevance"`              // of the score, comparable across bases, from 0 to 1
	Strength  float32         `json:"strength,omitempty"`     // by which the search ordered it; 0 if something else did
	Arm       retrieval.Arm   `json:"arm,omitempty"`          // the arm that contributed most, if the base is searched by several
	Reranked  *float64        `json:"rerank_score,omitempty"` // by the reranker; nil without one
	Grade     retrieval.Grade `json:"grade,omitempty"`        // if it was graded
	Graded    *float64        `json:"grade_score,omitempty"`  // by the grader; nil without one
	Text      string          `json:"text,omitempty"`

	// Only in explained searches:
	Words       float64      `json:"words_score,omitempty"`    // score by words, in a base with vectors
	Cosine      float64      `json:"cosine,omitempty"`         // similarity to the question's vector, in a base with vectors
	DenseWeight float64      `json:"dense_weight,omitempty"`   // weight of the vector score, in a base with vectors
	Terms       []LookupTerm `json:"terms,omitempty"`          // terms that make up the score
	Document    float64      `json:"document_score,omitempty"` // share of the document as a whole; negative for a further chunk of the same document
	Duplicates  []string     `json:"duplicates,omitempty"`     // chunks excluded as duplicates of this one, as kb_id/doc_id#chunk
}

// An Excluded is a candidate that was excluded. It has no text.
type Excluded struct {
	LookupSource
	Reason retrieval.ExcludeReason `json:"reason"`
	Detail string                  `json:"detail,omitempty"`
}

// NewLookup converts a result, with the texts of all sources.
func NewLookup(res *retrieval.Result) Lookup {
	a := Lookup{
		Object: "list", Data: make([]LookupSource, len(res.Sources)), Excluded: make([]Excluded, 0, res.Excluded.Len()),
		Reason: res.Reason, Partial: res.Partial, Degraded: res.Degraded, Retrieved: res.Retrieved, Unique: res.Unique, TookMS: report.Milliseconds(res.Took),
		Planned: res.Planned, Reranked: res.Reranked, Graded: res.Graded,
	}
	for i := range res.Sources {
		a.Data[i] = sourceOf(&res.Sources[i])
	}
	for x := range res.Excluded.All() {
		src := retrieval.ExcludedSource(&x)
		a.Excluded = append(a.Excluded, Excluded{sourceOf(&src), x.Reason, x.Why()})
	}
	return a
}

func sourceOf(s *retrieval.Source) LookupSource {
	return LookupSource{
		Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Date: s.Date, Score: s.Score, Relevance: s.Relevance, Strength: s.Strength,
		Arm: s.Arm, Reranked: s.RerankScore, Grade: s.Grade, Graded: s.GradeScore, Text: s.Text,
	}
}

// Explain adds to a why each candidate is in or out.
func (f *SearchResult) Explain(a *Lookup) {
	a.Stages, a.Floor, a.Terms = LookupStages(&f.Result), f.Explained.Floor, termsOf(f.Explained.Terms)
	excluded := f.Excluded.List()
	for i := range a.Data {
		a.Data[i].explain(f.told(&f.Sources[i]))
		for _, x := range excluded {
			if retrieval.DuplicateOf(&x, &f.Sources[i]) {
				src := retrieval.ExcludedSource(&x)
				a.Data[i].Duplicates = append(a.Data[i].Duplicates, ChunkID(&src))
			}
		}
	}
	for i := range a.Excluded {
		src := retrieval.ExcludedSource(&excluded[i])
		a.Excluded[i].explain(f.told(&src))
	}
}

func (s *LookupSource) explain(told retrieval.ExplainedHit) {
	s.Terms, s.Document = termsOf(told.Terms), told.Document
	if told.Arm != retrieval.ArmNone {
		s.Words, s.Cosine, s.DenseWeight = told.Words, told.Cosine, told.Weight
	}
}

func termsOf(terms []retrieval.ExplainedTerm) (list []LookupTerm) {
	for _, t := range terms {
		list = append(list, LookupTerm{Text: t.Text, Typed: t.Typed, Score: t.Score})
	}
	return list
}
