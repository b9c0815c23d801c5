package explain

import (
	"sidenote/proxy/report"
	"sidenote/retrieval"
)

// A Lookup is a search as programs read it: the answer of POST /v1/search, and of
// sidenote search --json.
type Lookup struct {
	Object    string           `json:"object"` // "list"
	Data      []LookupSource   `json:"data"`   // best first
	Excluded  []Excluded       `json:"excluded"`
	Stages    []LookupStage    `json:"stages,omitempty"` // of the command, and where it is explained
	Reason    retrieval.Reason `json:"reason,omitempty"` // why there is nothing, or something missing
	Partial   bool             `json:"partial"`
	Degraded  retrieval.Stage  `json:"degraded,omitempty"` // the stage that the search did without
	Knowledge []Searched       `json:"knowledge,omitzero"` // nil in the command
	Retrieved int              `json:"total_chunks_retrieved"`
	Unique    int              `json:"unique_chunks_after_dedup"`
	*retrieval.Planned
	Reranked *retrieval.Reranked  `json:"rerank,omitempty"`
	Graded   *retrieval.Graded    `json:"grade,omitempty"`
	Cache    retrieval.CacheState `json:"cache,omitempty"`
	TookMS   float64              `json:"took_ms"`
	Floor    float64              `json:"floor,omitempty"` // where it is explained: least score of what the embedded bases answer
	Terms    []LookupTerm         `json:"terms,omitempty"` // likewise: that were looked for in them, the weightiest first
}

// A LookupTerm is a word as an index has it, with what it adds to a score; 0 where no text has it.
type LookupTerm struct {
	Text  string  `json:"term"`
	Score float64 `json:"score"`
}

// A LookupSource is a chunk that was found.
type LookupSource struct {
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

	// Where it is explained:
	Words       float64      `json:"words_score,omitempty"`    // of a base with vectors: the score by words
	Cosine      float64      `json:"cosine,omitempty"`         // likewise: of its vector with that of the question
	DenseWeight float64      `json:"dense_weight,omitempty"`   // likewise: what that weighed
	Terms       []LookupTerm `json:"terms,omitempty"`          // that make the score
	Document    float64      `json:"document_score,omitempty"` // what the document as a whole adds, below 0 for a further chunk of it
	Duplicates  []string     `json:"duplicates,omitempty"`     // chunks that it stands for, as kb_id/doc_id#chunk
}

// An Excluded is a chunk that was found and left out. It has no text.
type Excluded struct {
	LookupSource
	Reason retrieval.ExcludeReason `json:"reason"`
	Detail string                  `json:"detail,omitempty"`
}

// NewLookup is a result with the texts of all sources.
func NewLookup(res *retrieval.Result) Lookup {
	a := Lookup{
		Object: "list", Data: make([]LookupSource, len(res.Sources)), Excluded: make([]Excluded, 0, res.Fallen.Len()),
		Reason: res.Reason, Partial: res.Partial, Degraded: res.Degraded, Retrieved: res.Retrieved, Unique: res.Unique, TookMS: report.Milliseconds(res.Took),
		Planned: res.Planned, Reranked: res.Reranked, Graded: res.Graded,
	}
	for i := range res.Sources {
		a.Data[i] = sourceOf(&res.Sources[i])
	}
	for x := range res.Fallen.All() {
		src := retrieval.ExcludedSource(&x)
		a.Excluded = append(a.Excluded, Excluded{sourceOf(&src), x.Reason, x.Why()})
	}
	return a
}

func sourceOf(s *retrieval.Source) LookupSource {
	return LookupSource{
		Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Score: s.Score, Relevance: s.Relevance,
		Arm: s.Arm, Reranked: s.RerankScore, Grade: s.Grade, Graded: s.GradeScore, Text: s.Text,
	}
}

// Explain adds to an answer why each candidate is in or out.
func (f *Found) Explain(a *Lookup) {
	a.Stages, a.Floor, a.Terms = LookupStages(&f.Result), f.Explained.Floor, termsOf(f.Explained.Terms)
	fallen := f.Fallen.List()
	for i := range a.Data {
		a.Data[i].explain(f.told(&f.Sources[i]))
		for _, x := range fallen {
			if retrieval.DuplicateOf(&x, &f.Sources[i]) {
				src := retrieval.ExcludedSource(&x)
				a.Data[i].Duplicates = append(a.Data[i].Duplicates, LookupPlace(&src))
			}
		}
	}
	for i := range a.Excluded {
		src := retrieval.ExcludedSource(&fallen[i])
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
		list = append(list, LookupTerm{Text: t.Text, Score: t.Score})
	}
	return list
}
