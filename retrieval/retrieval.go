// Package retrieval holds the words in which everyone talks about finding
// sources (Query, Source, Result, Retriever, Counter) and the stages that turn
// the answers of several knowledge bases into one short list: prepare, search,
// threshold, dedupe, diversify, order.
//
// Of ours it imports its filters only, and it knows nothing of HTTP, prompts or budgets:
// engines live in its children, caching in package cache, rendering in package
// rewrite.
package retrieval

import (
	"context"
	"errors"
	"slices"
	"time"

	"sidenote/retrieval/filter"
)

// ErrUnavailable is wrapped by every error after which the caller may carry on
// without sources: an engine that is down, broken or too late. "Nothing found"
// is an answer, not an error.
var ErrUnavailable = errors.New("retrieval unavailable")

// A Ref names one knowledge base in one state.
type Ref struct {
	Knowledge  string // id of the base, [a-z0-9_-]{1,64}
	Generation string // digest of what it holds, lower-case hex; "" while it is still indexing
}

// Settings are the part of a policy that search reads. It is a value: resolved
// once per request and passed down.
type Settings struct {
	TopK           int           // sources at most in the answer
	NumCandidates  int           // chunks asked of each base, or of those that are joint together
	MaxPerDocument int           // chunks of one document at most
	ScoreThreshold float64       // least score, of any base; AutoThreshold: each base's own
	Deadline       time.Duration // from the first search on; what has arrived by then is used

	// DenseWeight is what vectors weigh in the scores of bases that have some, where words weigh
	// the rest: above 0, up to 1. 0 is what was measured of each base.
	DenseWeight float64 `json:",omitempty"`
	// Fusion is how words and vectors become one list, and how what is found by several engines, or
	// for several queries, does.
	Fusion Fusion `json:",omitempty"`
	// Thresholds are of bases that have one of their own in place of the calibrated floor;
	// nobody changes them. A ScoreThreshold that is a score wins over them.
	Thresholds []Threshold `json:",omitempty"`
}

// A Threshold is the least Relevance of the sources of a base.
type Threshold struct {
	Knowledge string // id of the base
	Relevance float64
}

// AutoThreshold asks for the Threshold of each base or, where it has none, for its
// calibrated floor.
const AutoThreshold = -1

// DefaultSettings are 6 sources of 50 candidates, 3 a
// document, calibrated threshold, 300 ms.
func DefaultSettings() Settings {
	return Settings{TopK: 6, NumCandidates: 50, MaxPerDocument: 3, ScoreThreshold: AutoThreshold, Deadline: 300 * time.Millisecond}
}

// DefaultDenseWeight is what vectors weigh where nothing is said and nothing was measured, and the
// most that is measured. By MiniLM nDCG@10 of SciFact is
// .734, .732, .732, .724 and .710 for weights of .3, .4, .5, .6 and .7, that of Cranfield .434,
// .438, .436, .429 and .426.
const DefaultDenseWeight = 0.5

// A Query is one question to one or more bases of one tenant. Every field is part of the cache
// key: two queries that differ anywhere never share an entry. Only Planning, which Prepare alone
// reads, the Reranker and the Grader are not.
type Query struct {
	Tenant   string
	Filter   *filter.Filter // what this caller may see of the bases; nil is all of them
	Bases    []Ref
	Text     string // the question; after Prepare in NFKC with folded white space
	Previous []Turn // what the user said before, last first; after Prepare those turns that join the search
	// Further are the queries of a plan, which are searched beside Text, each by itself: the planner
	// has seen what was said before, so Previous joins Text only. Set by Prepare.
	Further  []string
	Planning *Planning // asks for Further; nil behind Prepare, and where nothing is planned
	// Reranking orders what is found by all bases together; nil behind a Pipeline, and where
	// nothing is reranked.
	Reranking *Reranking
	Grading   *Grading // of what is selected; nil likewise
	Encoding  string   // token encoding of the model that will read the sources
	Settings  Settings
}

// A Turn is what the user said earlier in a conversation.
type Turn struct {
	Text   string  // after Prepare in NFKC with folded white space
	Weight float64 // of its terms, where those of the question have 1; set by Prepare
}

// Turns returns what the user said, first turn first, as Query.Previous has it.
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
	Text        string // what the model reads, neutralised, no leading or trailing blank lines
	Before      string // text of the chunk before (same document), optional context; "" at the start
	After       string // text of the chunk after, likewise
	Tokens      int    // of Text in the query's Encoding, exactly; 0 where unknown
	Score       float64
	Relevance   float64   // of Score among those of all bases, see Relevance; 0 from an engine
	Arm         Arm       // that speaks most for the chunk, of an engine that has several
	ByArm       ArmScores // of such an engine; zero where Arm is none
	RerankScore *float64  // of a Reranker; nil where it scored no such chunk
	GradeScore  *float64  // of a Grader, likewise
	Grade       Grade
	// Sketch is that of a Sketcher of Text's content terms, made at ingest; "" where the
	// engine has none, and in what a Pipeline returns.
	Sketch string
	// At is for the engine. Where At.Kept is set, an engine leaves Name, Section, Text, Before,
	// After, Tokens and Sketch empty: its Result's Texts have them.
	At Place
}

// typeRAG is the Source.Type of a chunk of a knowledge base.
const typeRAG = "rag"

// Reason says why a Result is empty or not whole. It is a closed list.
type Reason string

// The reasons a Result may carry; "" is a whole answer with at least one source.
const (
	ReasonNone         Reason = ""
	ReasonNoQueryTerms Reason = "no-query-terms"    // nothing in the question to search for
	ReasonNoKnowledge  Reason = "no-knowledge"      // no base to ask
	ReasonPlannerSkip  Reason = "planner-skip"      // not searched: the planner says that nothing need be
	ReasonNoMatch      Reason = "no-match"          // searched; nothing relevant
	ReasonIrrelevant   Reason = "irrelevant"        // searched; all that was found is graded so
	ReasonIndexing     Reason = "indexing"          // the first index is not whole yet
	ReasonState        Reason = "state"             // the state folder cannot be used, so there is no index
	ReasonTimeout      Reason = "retrieval-timeout" // the deadline passed
	ReasonError        Reason = "retrieval-error"   // an engine failed
)

// Failed tells a failure from an honest empty answer. Other bases may have answered
// all the same.
func (r Reason) Failed() bool {
	return r == ReasonIndexing || r == ReasonState || r == ReasonTimeout || r == ReasonError
}

// Searched tells a whole search, empty or not, from one that failed and from none.
func (r Reason) Searched() bool {
	return r == ReasonNone || r == ReasonNoMatch || r == ReasonIrrelevant
}

// A Stage is a part of a search that an answer can do without. It is a closed list.
type Stage string

// StageEmbed is the vector of the question, which was late or could not be made.
const StageEmbed Stage = "embed"

// CacheState says how a cache took part in a Result.
type CacheState string

// The ways a cache can take part.
const (
	CacheOff  CacheState = "off"
	CacheMiss CacheState = "miss"
	CacheHit  CacheState = "hit"
)

// A Lookup is what a cache of candidates said of one search.
type Lookup struct {
	Knowledge string // the base; of several that are searched as one, the first
	Others    int    // of those
	Query     int    // the query of the plan, from 1; 0: the question
	State     CacheState
	Key       uint32 // see Result.CacheKey
}

// A Result is an answer to a Query. It may be shared by many callers at once:
// nobody changes it, neither its slices.
type Result struct {
	Sources []Source     // best first, at most Settings.TopK (of an engine: NumCandidates)
	Hits    []Hit        // of a Finder, in place of Sources; they name bases by their number in Bases
	Fallen  ExcludedList // candidates that are no sources; of a pipeline, none from an engine
	Bases   []Ref        // what was really searched, with the generation searched
	Floor   float64      // of an engine: its calibrated least score; 0 is none
	Reason  Reason       // why there is nothing, or why something is missing
	Partial bool         // a base was late or failed: never cached as a whole answer
	Cache   CacheState

	// CacheKey is the beginning of the digest of the key by which the cache was asked that Cache is of;
	// 0 where none was.
	CacheKey uint32
	// Lookups are those of the search by caches behind that one; nil where none was asked. They are
	// never cached.
	Lookups []Lookup

	// Provisional says that Floor is an estimate while the right one is being measured: the
	// next answer may differ, and this one is never cached.
	Provisional bool

	// Degraded names a stage without which the answer was made; "" for none. The next answer may
	// have it, so this one is never cached.
	Degraded Stage
	// Unembedded is why the vector of the question is missing; "" if it is not.
	Unembedded EmbedReason
	// Late counts what had not come when its time was up, and may be there the next time: of a
	// Pipeline the answers to its searches, and vectors of questions.
	Late int

	// Texts are those of Sources or Hits that an engine keeps; nil where all came with the hits, and
	// in what a Pipeline returns.
	Texts Texts

	Retrieved int // candidates of all bases together
	Unique    int // of them, left after dedupe; of an engine: the same

	Took time.Duration // from the first search to the answer; of a hit: the look-up

	// Planned is what came of planning; nil where nothing is planned. It is never cached.
	Planned *Planned
	// Reranked is what came of reranking; nil where nothing is reranked. It is never cached.
	Reranked *Reranked
	// Graded is what came of grading; nil where nothing is graded. It is never cached.
	Graded *Graded
}

// A Retriever answers a Query with at most as many sources as its settings
// allow, best first. One knowledge base is a Retriever, the whole pipeline over
// several is one, and so is a cache in front of either.
//
// An error wraps ErrUnavailable and leaves a Result that still says what is
// known (Reason, Bases). Implementations are safe for concurrent use and
// return by ctx's deadline.
type Retriever interface {
	Retrieve(ctx context.Context, q Query) (Result, error)
}

// A Prompter is a Retriever that answers some questions at once: without waiting for anything,
// and in less time than it takes to keep the answer or to hand the question to another
// goroutine.
type Prompter interface {
	// Prompt tells whether q, as Retrieve is given it, is such a question.
	Prompt(q *Query) bool
}

// Prompt tells whether r is a Prompter that answers q at once.
func Prompt(r Retriever, q *Query) bool {
	p, ok := r.(Prompter)
	return ok && p.Prompt(q)
}

// A Finder is a Retriever that answers in memory of its caller. A question passes several, whose
// queries and results are large: copied from one to the next they would be most of what lies on a
// stack.
type Finder interface {
	// Find is Retrieve into res for a caller that alone gets the answer. It may change q, and
	// does not keep it.
	//
	// Where res comes with room for Hits, an engine that keeps the texts of what it finds may answer
	// with these in place of Sources, and in that room: a search finds dozens of chunks of which few
	// are selected.
	Find(ctx context.Context, q *Query, res *Result) error
}

// Find is r.Find, or r.Retrieve where r is no Finder.
func Find(ctx context.Context, r Retriever, q *Query, res *Result) (err error) {
	if f, ok := r.(Finder); ok {
		return f.Find(ctx, q, res)
	}
	*res, err = r.Retrieve(ctx, *q)
	return err
}

// Func is a Retriever made of a function.
type Func func(ctx context.Context, q Query) (Result, error)

// Retrieve calls f.
func (f Func) Retrieve(ctx context.Context, q Query) (Result, error) { return f(ctx, q) }

// A Base is a knowledge base that can be searched: a Retriever that also tells
// its present state. It answers queries whose Bases hold just itself.
type Base interface {
	Retriever
	// Ref returns the base's id and present generation; the generation is "" until
	// the first index is whole.
	Ref() Ref
}

// A Counter counts tokens. exact is false where n is only an upper bound.
// It need not be additive: Count(a+b) may differ from Count(a)+Count(b).
type Counter interface {
	Count(text string) (n int, exact bool)
}
