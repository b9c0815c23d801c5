// Package retrieval defines the types of the search (Query, Source, Result, Retriever, Counter)
// and the pipeline that turns the answers of several knowledge bases into one short list: prepare,
// search, threshold, dedupe, diversify, order.
//
// It imports only the package filter of this project and knows nothing of HTTP, prompts or
// budgets: engines are in its child packages, caching is in package cache, rendering in package
// rewrite.
package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sidenote/retrieval/filter"
)

// ErrUnavailable is wrapped by every error after which the caller may continue without sources: an
// engine that is down, broken or too slow. "Nothing found" is an answer, not an error.
var ErrUnavailable = errors.New("retrieval unavailable")

// A Ref names one generation of a knowledge base.
type Ref struct {
	Knowledge  string // id of the base, [a-z0-9_-]{1,64}
	Generation string // digest of its contents, lower-case hex; "" until the first index is complete
}

// Settings are the part of a policy that search reads. They are a value, resolved once per request
// and passed down.
type Settings struct {
	TopK           int           // maximum number of sources in the answer
	NumCandidates  int           // chunks requested from each base, or from all joint bases together
	MaxPerDocument int           // maximum number of chunks of one document
	MaxVariants    int           // maximum number of chunks that differ only in numbers, names and the like; those that the question names do not count
	ScoreThreshold float64       // minimum score in every base; AutoThreshold: each base's own
	Deadline       time.Duration // from the start of the search; only what has arrived by then is used

	// DenseWeight is the weight, in (0, 1], of vector scores in bases that have vectors; word
	// scores get the rest. 0 means the weight measured for each base.
	DenseWeight float64 `json:",omitempty"`
	// Fusion is how word and vector results are merged into one list, and so are the results of
	// several engines or queries.
	Fusion Fusion `json:",omitempty"`
	// Versions says which versions of a document become sources.
	Versions Versions `json:",omitempty"`
	// Thresholds replace the calibrated floor of single bases. They must not be modified. A
	// ScoreThreshold of 0 or more takes precedence over them.
	Thresholds []Threshold `json:",omitempty"`
	// Synonyms are also searched, at a lower weight; nil: none.
	Synonyms *Synonyms `json:",omitempty"`
}

// Synonyms are phrases that texts may have instead of those of a question. They must not be
// modified.
type Synonyms struct {
	Digest string                   // identifies the list
	Rules  map[string][]SynonymRule `json:"-"` // by the first of SynonymRule.Terms
}

// A SynonymRule says what else is searched for a phrase. Phrases are lists of terms.
type SynonymRule struct {
	Terms        []string
	Alternatives [][]string
}

// ID returns the digest, "" for nil.
func (s *Synonyms) ID() string {
	if s == nil {
		return ""
	}
	return s.Digest
}

// A Threshold is the minimum Relevance of the sources of a base.
type Threshold struct {
	Knowledge string // id of the base
	Relevance float64
}

// AutoThreshold is the Settings.ScoreThreshold that selects the Threshold of each base or, if it
// has none, its calibrated floor.
const AutoThreshold = -1

// DefaultSettings returns 6 sources out of 50 candidates, at most 3 per document, the calibrated
// threshold and a deadline of 300 ms; at most 3 variants, and the newest version.
func DefaultSettings() Settings {
	return Settings{TopK: 6, NumCandidates: 50, MaxPerDocument: 3, MaxVariants: 3, ScoreThreshold: AutoThreshold, Deadline: 300 * time.Millisecond}
}

// DefaultDenseWeight is the weight of vector scores where neither a policy nor a measurement sets
// one, and the upper limit of measured weights. With MiniLM, nDCG@10 of SciFact is .734, .732,
// .732, .724 and .710 for weights of .3, .4, .5, .6 and .7; that of Cranfield is .434, .438, .436,
// .429 and .426.
const DefaultDenseWeight = 0.5

// A Query is one question to one or more bases of one tenant. Every field is part of the cache key
// except Planning (read by Prepare only), Reranking, Grading and Hits: two queries that differ in
// any other field never share an entry.
type Query struct {
	Tenant   string
	Filter   *filter.Filter // what this caller may see of the bases; nil: everything
	Bases    []Ref
	Text     string // the question; after Prepare in NFKC with folded white space
	Previous []Turn // earlier user turns, last first; after Prepare only those that join the search
	// Further holds the queries of a plan, each searched separately beside Text. Previous joins
	// only Text, because the planner has already seen the earlier turns. Set by Prepare.
	Further  []string
	Planning *Planning // asks for Further; nil after Prepare, and without planning
	// Reranking orders the candidates of all bases together; nil if nothing is reranked, and in
	// the queries that a Pipeline sends to bases.
	Reranking *Reranking
	Grading   *Grading // of the selected sources; nil likewise
	Encoding  string   // token encoding of the model that will read the sources
	Settings  Settings
	// Hits is an empty buffer. If it has capacity, an engine that keeps the texts of its chunks may
	// return hits in it instead of Sources: a search finds dozens of chunks, of which few are
	// selected. A retriever must not use it after it has returned. Set by a Pipeline.
	Hits []Hit
}

// A Turn is an earlier user message of the conversation.
type Turn struct {
	Text   string  // after Prepare in NFKC with folded white space
	Weight float64 // of its terms, where terms of the question have 1; set by Prepare
}

// Turns converts user messages, first message first, to the order of Query.Previous.
func Turns(said []string) []Turn {
	var turns []Turn
	for _, text := range slices.Backward(said) {
		turns = append(turns, Turn{Text: text})
	}
	return turns
}

// A Source is one retrieved chunk of a document.
type Source struct {
	Type        string // "rag" for a chunk of a knowledge base
	Knowledge   string // id of the base
	Doc         string // id of the document in its base, for files the slash-separated path
	Chunk       int    // ordinal of the chunk in its document, from 0
	Name        string // title of the document
	Section     string // heading path below the title, joined by " > "; "" at the top
	Date        string // YYYY, YYYY-MM or YYYY-MM-DD, if it is one of several versions of a document that were found; "" from an engine
	Text        string // what the model reads, neutralised, without leading or trailing blank lines
	Before      string // text of the previous chunk of the document, optional context; "" at the start
	After       string // text of the next chunk, likewise
	Tokens      int    // exact tokens of Text in the query's Encoding; 0 if unknown
	Score       float64
	Relevance   float64   // Score on a scale shared by all bases, see Relevance; 0 from an engine
	Strength    float32   // by which sources are ordered, see weighEvidence; 0 if something else orders them
	Arm         Arm       // the arm that contributes most to Score, if the engine has several
	ByArm       ArmScores // scores by arm; zero if Arm is ArmNone
	RerankScore *float64  // from a Reranker; nil if it did not score this chunk
	GradeScore  *float64  // from a Grader; nil likewise
	Grade       Grade
	// Sketch is the Sketcher's sketch of the content terms of Text, made at ingest; "" if the
	// engine has none, and in the Result of a Pipeline.
	Sketch string
	// Attributes are the attributes of the document that tell its date or version, as a JSON object,
	// if the engine returns texts; "" otherwise, and in the Result of a Pipeline.
	Attributes string
	// At is used by the engine only. If At.Kept is set, an engine leaves Name, Section, Text,
	// Before, After, Tokens and Sketch empty; they are read from the Result's Texts.
	At Place
}

// typeRAG is the Source.Type of a chunk of a knowledge base.
const typeRAG = "rag"

// Reason says why a Result is empty or incomplete. It is a closed list.
type Reason string

// The reasons of a Result; "" is a complete answer with at least one source.
const (
	ReasonNone         Reason = ""
	ReasonNoQueryTerms Reason = "no-query-terms"    // the question has no searchable terms
	ReasonNoKnowledge  Reason = "no-knowledge"      // no base to search
	ReasonPlannerSkip  Reason = "planner-skip"      // the planner says that no search is needed
	ReasonNoMatch      Reason = "no-match"          // searched; nothing relevant
	ReasonIrrelevant   Reason = "irrelevant"        // searched; all sources were graded irrelevant
	ReasonIndexing     Reason = "indexing"          // the first index is not complete yet
	ReasonState        Reason = "state"             // the state folder is unusable, so there is no index
	ReasonTimeout      Reason = "retrieval-timeout" // the deadline passed
	ReasonError        Reason = "retrieval-error"   // an engine failed
)

// Failed reports whether r is a failure rather than an empty answer. Other bases may still have
// answered.
func (r Reason) Failed() bool {
	return r == ReasonIndexing || r == ReasonState || r == ReasonTimeout || r == ReasonError
}

// Searched reports whether the search was complete, with or without sources.
func (r Reason) Searched() bool {
	return r == ReasonNone || r == ReasonNoMatch || r == ReasonIrrelevant
}

// A Stage is an optional part of a search. It is a closed list.
type Stage string

// StageEmbed is the embedding of the question.
const StageEmbed Stage = "embed"

// CacheState says whether a Result came from a cache.
type CacheState string

// The cache states.
const (
	CacheOff  CacheState = "off"
	CacheMiss CacheState = "miss"
	CacheHit  CacheState = "hit"
)

// A Lookup is the outcome of one lookup in a candidate cache.
type Lookup struct {
	Knowledge string // the base; the first one if several are searched as one
	Others    int    // number of the other bases searched with it
	Query     int    // number of the plan's query, from 1; 0: the question
	State     CacheState
	Key       uint32 // see Result.CacheKey
}

// A Result is an answer to a Query. It may be shared by many callers at once: neither it nor its
// slices may be modified.
type Result struct {
	Sources  []Source     // best first, at most Settings.TopK (of an engine: NumCandidates)
	Hits     []Hit        // in place of Sources, see Query.Hits; Hit.Base is an index into Bases
	Excluded ExcludedList // candidates that are not sources; from a pipeline only, never from an engine
	Bases    []Ref        // bases that were searched, with the generation searched
	Floor    float64      // of an engine: its calibrated minimum score; 0: none
	Least    float64      // of an engine: minimum score of sources beside Floor, as the best one scores far more; 0: none
	Reason   Reason       // why it is empty or incomplete
	Partial  bool         // a base was late or failed; never cached as a complete answer
	Cache    CacheState

	// CacheKey is the first 4 bytes of the digest of the cache key that Cache is about; 0 if no
	// cache was asked.
	CacheKey uint32
	// Lookups are the lookups that the search made in the caches of candidates; nil if there were
	// none. They are never cached.
	Lookups []Lookup

	// Provisional says that Floor is an estimate until it has been measured. The next answer may
	// differ, so this one is never cached.
	Provisional bool

	// Degraded names the stage that failed, so that the answer was made without it; "" if none
	// did. The next answer may differ, so this one is never cached.
	Degraded Stage
	// EmbedFailure is why the vector of the question is missing; "" if it is not missing.
	EmbedFailure EmbedReason
	// Late counts what missed the deadline and may be there the next time: in a Pipeline's result,
	// answers to its searches and vectors of questions.
	Late int

	// Texts reads the texts of Sources or Hits that the engine keeps; nil if all texts are in the
	// result, and in a Pipeline's result.
	Texts Texts

	Retrieved int // candidates of all bases together
	Unique    int // candidates left after dedupe; from an engine the same as Retrieved

	Took time.Duration // from the start of the search to the answer; of a cache hit, the lookup

	// Planned reports the planning; nil if nothing was planned. It is never cached.
	Planned *Planned
	// Reranked reports the reranking; nil if nothing was reranked. It is never cached.
	Reranked *Reranked
	// Graded reports the grading; nil if nothing was graded. It is never cached.
	Graded *Graded
}

// A Retriever answers a Query with at most as many sources as its settings allow, best first. A
// knowledge base is a Retriever, and so are the pipeline over several bases and a cache in front
// of either.
//
// An error wraps ErrUnavailable; the Result then still holds what is known (Reason, Bases).
// Implementations are safe for concurrent use and return by ctx's deadline.
type Retriever interface {
	Retrieve(ctx context.Context, q Query) (Result, error)
}

// An ImmediateRetriever is a Retriever that answers some queries without waiting, in less time than
// it takes to store the answer in a cache or to start a goroutine.
type ImmediateRetriever interface {
	// AnswersAtOnce reports whether q, as passed to Retrieve, is such a query.
	AnswersAtOnce(q Query) bool
}

// AnswersAtOnce reports whether r is an ImmediateRetriever that answers q at once.
func AnswersAtOnce(r Retriever, q Query) bool {
	p, ok := r.(ImmediateRetriever)
	return ok && p.AnswersAtOnce(q)
}

// Func adapts a function to a Retriever.
type Func func(ctx context.Context, q Query) (Result, error)

// Retrieve calls f.
func (f Func) Retrieve(ctx context.Context, q Query) (Result, error) { return f(ctx, q) }

// A Base is a searchable knowledge base: a Retriever that also reports its current generation. It
// answers queries whose Bases hold only itself.
type Base interface {
	Retriever
	// Ref returns the base's id and current generation; the generation is "" until the first index
	// is complete.
	Ref() Ref
}

// A Counter counts tokens. exact is false where n is only an upper bound.
// It need not be additive: Count(a+b) may differ from Count(a)+Count(b).
type Counter interface {
	Count(text string) (n int, exact bool)
}

// orDefaults replaces invalid values by the defaults: counts and a deadline that are not positive,
// and a threshold that is NaN or negative. NumCandidates is at least TopK. So an incomplete policy
// searches with defaults; to search nothing, do not call a Retriever.
func (s Settings) orDefaults() Settings {
	d := DefaultSettings()
	if s.TopK <= 0 {
		s.TopK = d.TopK
	}
	if s.NumCandidates <= 0 {
		s.NumCandidates = d.NumCandidates
	}
	s.NumCandidates = max(s.NumCandidates, s.TopK)
	if s.MaxPerDocument <= 0 {
		s.MaxPerDocument = d.MaxPerDocument
	}
	if s.MaxVariants <= 0 {
		s.MaxVariants = d.MaxVariants
	}
	if s.Versions != VersionsAll && s.Versions != VersionsOff {
		s.Versions = VersionsNewest
	}
	if math.IsNaN(s.ScoreThreshold) || s.ScoreThreshold < 0 {
		s.ScoreThreshold = AutoThreshold
	}
	if !(s.DenseWeight > 0 && s.DenseWeight <= 1) {
		s.DenseWeight = 0
	}
	if s.Fusion != FusionRanks {
		s.Fusion = FusionScores
	}
	if s.Deadline <= 0 {
		s.Deadline = d.Deadline
	}
	return s
}

// threshold returns the minimum score of chunks of a base with the given floor; -Inf if there is
// none.
func (s Settings) threshold(knowledge string, floor float64) float64 {
	if s.ScoreThreshold >= 0 {
		return s.ScoreThreshold
	}
	for _, t := range s.Thresholds {
		if t.Knowledge == knowledge {
			return FromRelevance(t.Relevance, floor)
		}
	}
	switch {
	case floor == 0 || math.IsNaN(floor):
		return math.Inf(-1)
	}
	return floor
}

type answerByKey struct{}

// withAnswerBy returns ctx with its deadline as a value, so that a search that continues after its
// caller has left still knows when the caller wanted the answer.
func withAnswerBy(ctx context.Context) context.Context {
	by, _ := ctx.Deadline()
	return context.WithValue(ctx, answerByKey{}, by)
}

// AnswerBy returns when the caller of a search stops waiting; an engine may skip a slow optional
// part to answer before. known is false if there is no such time.
func AnswerBy(ctx context.Context) (by time.Time, known bool) {
	by, known = ctx.Value(answerByKey{}).(time.Time)
	return by, known
}

// A Space identifies an embedding space: vectors of one Space are comparable.
type Space struct {
	Model      string
	Dimensions int    // as requested; 0 is the model's default
	Input      string // what else changes the vectors, such as a prefix or the length to cut to
}

// Key returns the storage key of a passage's vector: a digest of the space and the passage. Parts
// are hashed with their lengths, so different parts never give the same input.
func (s Space) Key(passage string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [...]string{"sidenote vector", s.Model, fmt.Sprint(s.Dimensions), s.Input, passage} {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	h.Sum(key[:0])
	return key
}

// String formats the space for people: "text-embedding-3-small/512".
func (s Space) String() string {
	if s.Dimensions == 0 {
		return s.Model
	}
	return fmt.Sprintf("%s/%d", s.Model, s.Dimensions)
}

// EmbedReason says why a search ran without the vector of the question; "" if it had the vector,
// or needed none. It is a closed list and a metric label.
type EmbedReason string

// The reasons.
const (
	EmbedTimeout EmbedReason = "timeout"
	EmbedError   EmbedReason = "error"   // service failed, breaker open, or damaged vectors
	EmbedInvalid EmbedReason = "invalid" // its vector cannot be compared with those of the base
)

// ErrBadVectors says that the answer of an Embedder's service is unusable.
var ErrBadVectors = errors.New("answer cannot be used")

// EmbedReasonOf returns the reason for an error of an Embedder; "" for nil.
func EmbedReasonOf(err error) EmbedReason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrBadVectors):
		return EmbedInvalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return EmbedTimeout
	}
	return EmbedError
}

// An Embedder makes vectors of questions, to be compared with those of passages.
//
// Embed returns one vector for each text, in order: all of one length, finite, and not zero. It
// makes one attempt and returns by ctx's deadline. Its error wraps ErrBadVectors if the answer is
// not such a list. Implementations are safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
