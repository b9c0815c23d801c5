package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval/eval"
)

// An evaluationAnswer is what --json prints.
type evaluationAnswer struct {
	Object    string   `json:"object"` // "eval"
	Data      string   `json:"data"`
	Judgments string   `json:"qrels"`               // file with the grades: for a CSV the same as Data
	Knowledge []string `json:"knowledge,omitempty"` // bases that were searched; absent if the collection's own documents were
	Documents int      `json:"documents"`
	Chunks    int      `json:"chunks"`

	Queries          int `json:"queries"`
	LeftOut          int `json:"queries_left_out"` // without relevant documents
	UnknownQueries   int `json:"unknown_queries"`
	UnknownDocuments int `json:"unknown_documents"`          // for a CSV: rows whose documents do not exist
	Unconfirmed      int `json:"rows_unconfirmed,omitempty"` // of a CSV: rows that no person has confirmed

	NDCG       float64 `json:"ndcg_at_10"`
	RecallNear float64 `json:"recall_at_10"`
	RecallFar  float64 `json:"recall_at_100"`
	MRR        float64 `json:"mrr_at_10"`

	TopK  int     `json:"top_k"`
	First float64 `json:"right_at_1"`     // share of the queries whose first source is relevant
	Right float64 `json:"right_at_top_k"` // … whose request gets a relevant source
	Hit   float64 `json:"hit_at_top_k"`   // same as Right, for older scripts
	Empty int     `json:"queries_without_sources"`
	Lost  float64 `json:"lost"` // share of the queries with a relevant source that lose one to the minimum score

	OffTopic *offTopicAnswer `json:"off_topic,omitempty"` // absent if no messages were asked

	IndexMS float64   `json:"index_ms"`
	Latency latencies `json:"latency_ms"`

	Policy string      `json:"policy,omitempty"` // these are absent if only words are searched, by default
	Stages []evalStage `json:"stages,omitempty"` // the last is what requests get
	Tokens *evalTokens `json:"tokens,omitempty"`

	DenseWeights map[string]float64 `json:"dense_weights,omitempty"` // weights of vectors, by base that has some

	Worst []worstQuery `json:"worst,omitempty"`
}

// latencies are the wall times of searches, in milliseconds.
type latencies struct {
	Clock string  `json:"clock"` // "wall"
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

// An offTopic reports on messages that no document answers.
type offTopicAnswer struct {
	Messages int             `json:"messages"`
	Injected float64         `json:"injected"` // share that gets sources
	Worst    []worstOffTopic `json:"worst,omitempty"`
}

// A worstOffTopic is a message that gets sources but should not.
type worstOffTopic struct {
	ID      string   `json:"message_id"`
	Text    string   `json:"text"`
	Sources []string `json:"documents_in_request"`
}

// A worstQuery shows why a query did badly.
type worstQuery struct {
	ID       string         `json:"query_id"`
	Text     string         `json:"text"`
	NDCG     float64        `json:"ndcg_at_10"`
	Hit      bool           `json:"hit"`
	Sources  int            `json:"documents_in_request"`
	Found    []evalDocument `json:"found"`    // the best ten
	Expected []evalDocument `json:"expected"` // all relevant ones, best rank first
}

// An evalDocument was found for a query, or is relevant to it.
type evalDocument struct {
	Rank  int    `json:"rank,omitempty"` // absent beyond the first hundred
	ID    string `json:"doc_id"`
	Title string `json:"title"`
	Grade int    `json:"grade"`
}

// held returns the number of documents that were searched.
func (e *evaluation) held() int {
	if len(e.Subject.Engines) > 0 {
		return e.Subject.Held
	}
	return len(e.Data.Documents)
}

// Answer returns the evaluation for JSON, with the worst n queries.
func (e *evaluation) Answer(n int) evaluationAnswer {
	s := eval.Summarise(e.Outcomes)
	return evaluationAnswer{
		Object: "eval", Data: e.Name, Judgments: e.Data.Judgments, Knowledge: e.Subject.Bases, Documents: e.held(), Chunks: e.Subject.Chunks,
		Queries: s.Queries, LeftOut: e.Data.LeftOut, UnknownQueries: e.Data.UnknownQueries, UnknownDocuments: e.Data.UnknownDocuments + len(e.Unmatched), Unconfirmed: e.Left,
		NDCG: roundedScore(s.NDCG), RecallNear: roundedScore(s.RecallNear), RecallFar: roundedScore(s.RecallFar), MRR: roundedScore(s.ReciprocalRank),
		TopK: e.Subject.Settings.TopK, First: roundedScore(s.First), Right: roundedScore(s.Hit), Hit: roundedScore(s.Hit), Empty: s.Empty, Lost: roundedScore(s.Lost),
		OffTopic: e.offTopic(n),
		IndexMS:  terminal.Milliseconds(e.Subject.Index),
		Latency:  latencies{Clock: "wall", P50: terminal.Milliseconds(s.P50), P95: terminal.Milliseconds(s.P95), P99: terminal.Milliseconds(s.P99)},
		Policy:   e.policy(), Stages: e.stages(s), Tokens: e.tokens(), DenseWeights: e.Subject.Weights,
		Worst: e.worst(n),
	}
}

// offTopic returns the report on off-topic messages, with the first n that get sources; nil if
// none were asked.
func (e *evaluation) offTopic(n int) *offTopicAnswer {
	if len(e.OffTopic) == 0 {
		return nil
	}
	o := &offTopicAnswer{Messages: len(e.OffTopic), Injected: roundedScore(e.injected())}
	injected := eval.Injected(e.OffTopic)
	for _, r := range injected[:min(n, len(injected))] {
		w := worstOffTopic{ID: r.Message.ID, Text: r.Message.Text}
		for _, s := range r.Sources {
			if !slices.Contains(w.Sources, s.Doc) {
				w.Sources = append(w.Sources, s.Doc)
			}
		}
		o.Worst = append(o.Worst, w)
	}
	return o
}

// roundedScore keeps six decimals; further ones depend on the order of additions.
func roundedScore(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// mostFound limits the found documents of a worstQuery.
const mostFound = 10

// worst explains the n worst queries.
func (e *evaluation) worst(n int) []worstQuery {
	titles := make(map[string]string, len(e.Data.Documents))
	for _, d := range e.Data.Documents {
		titles[d.ID] = d.Title
	}
	var list []worstQuery
	for _, o := range eval.Worst(e.Outcomes, n) {
		grades := e.Data.Grades[o.Query.ID]
		w := worstQuery{ID: o.Query.ID, Text: o.Query.Text, NDCG: roundedScore(o.NDCG), Hit: o.Hit, Sources: len(o.Sources), Found: []evalDocument{}}
		for i, id := range o.Ranking[:min(mostFound, len(o.Ranking))] {
			w.Found = append(w.Found, evalDocument{i + 1, id, titles[id], grades[id]})
		}
		for id, grade := range grades {
			if grade > 0 {
				w.Expected = append(w.Expected, evalDocument{slices.Index(o.Ranking, id) + 1, id, titles[id], grade})
			}
		}
		slices.SortFunc(w.Expected, func(a, b evalDocument) int {
			// uint(0)-1 is the largest number, so documents without a rank come last.
			return cmp.Or(cmp.Compare(uint(a.Rank)-1, uint(b.Rank)-1), cmp.Compare(b.Grade, a.Grade), cmp.Compare(a.ID, b.ID))
		})
		list = append(list, w)
	}
	return list
}

// Print writes the evaluation for people, with the n worst queries.
func (e *evaluation) Print(w io.Writer, n int, color bool) {
	p := painter{w, color}
	s, data := eval.Summarise(e.Outcomes), e.Data
	held := fmt.Sprintf("%s in %s", terminal.Plural(e.held(), "document"), terminal.Plural(e.Subject.Chunks, "chunk"))
	if bases := e.Subject.Bases; len(bases) > 0 {
		p.row("knowledge", fmt.Sprintf("%s: %s", e.Subject, held))
	} else {
		p.row("collection", fmt.Sprintf("%s: %s, indexed in %.1f s", terminal.Clean(e.Name), held, e.Subject.Index.Seconds()))
	}
	asked := fmt.Sprintf("%s queries of %s", terminal.Thousands(s.Queries), data.Judgments)
	if s.Queries == 1 {
		asked = "1 query of " + data.Judgments
	}
	if data.LeftOut > 0 {
		asked += fmt.Sprintf(" (left out for want of a relevant document: %s)", terminal.Thousands(data.LeftOut))
	}
	if e.Left > 0 {
		asked += fmt.Sprintf(" (not confirmed, so not asked: %s)", terminal.Plural(e.Left, "row"))
	}
	p.row("asked", asked)
	fmt.Fprintln(w)
	p.measure("nDCG@10", s.NDCG, "how well the first 10 documents are ordered; 1 is perfect")
	p.measure("recall@10", s.RecallNear, "share of the right documents that are among the first 10")
	p.measure("recall@100", s.RecallFar, "… among the first 100")
	p.measure("MRR@10", s.ReciprocalRank, "1 / rank of the first right document")
	p.measure("right@1", s.First, "share of the requests whose first source is right")
	empty := ""
	if s.Empty > 0 {
		empty = fmt.Sprintf(" (without a source: %s)", terminal.Thousands(s.Empty))
	}
	if k := e.Subject.Settings.TopK; k > 1 {
		p.measure(fmt.Sprintf("right@%d", k), s.Hit, "… that get a right source"+empty)
	}
	p.measure("lost", s.Lost, "share of those with a right source that lose one to the floor")
	if len(e.OffTopic) > 0 {
		p.measure("injected", e.injected(), fmt.Sprintf("share of the %s that get sources", terminal.Plural(len(e.OffTopic), "off-topic message")))
	}
	fmt.Fprintln(w)
	p.row("latency", fmt.Sprintf("p50 %s, p95 %s, p99 %s", terminal.Short(s.P50, 1), terminal.Short(s.P95, 1), terminal.Short(s.P99, 1))+
		p.faint("   wall time of a search, nothing cached"))
	e.printStages(p, s)
	for i, q := range e.worst(n) {
		p.query(i+1, q)
	}
	if o := e.offTopic(n); o != nil {
		for i, w := range o.Worst {
			head := fmt.Sprintf("off topic %d", i+1)
			fmt.Fprintf(p.w, "\n%s  %s\n", p.paint("1", head), terminal.Fit(w.Text, maxWidth-len(head)-2))
			fmt.Fprintf(p.w, "  %s\n", p.faint(fmt.Sprintf("message %s gets sources: %s", terminal.Clean(w.ID), terminal.Fit(strings.Join(w.Sources, ", "), maxWidth))))
		}
	}
}

// A painter writes lines for people.
type painter struct {
	w     io.Writer
	color bool
}

func (p painter) row(name, text string) { fmt.Fprintf(p.w, "%-12s%s\n", name, text) }

func (p painter) measure(name string, value float64, note string) {
	p.row(name, p.paint("1", fmt.Sprintf("%.3f", value))+p.faint("   "+note))
}

func (p painter) faint(text string) string { return p.paint("2", text) }

func (p painter) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	maxWidth  = 79 // columns of a line, approximately
	mostShown = 5  // documents of a kind shown for a worst query
)

func (p painter) query(n int, q worstQuery) {
	gets := "its request gets no source"
	switch {
	case q.Hit:
		gets = "its request gets a relevant source all the same"
	case q.Sources > 0:
		gets = "its request gets none that is relevant"
	}
	head := fmt.Sprintf("worst %d", n)
	fmt.Fprintf(p.w, "\n%s  %s\n", p.paint("1", head), terminal.Fit(q.Text, maxWidth-len(head)-2))
	fmt.Fprintf(p.w, "  %s\n", p.faint(fmt.Sprintf("query %s, nDCG@10 %.3f, %s", terminal.Clean(q.ID), q.NDCG, gets)))
	p.documents("found", q.Found)
	p.documents("expected", q.Expected)
}

// documents lists ranks, ids and titles; relevant ones are marked.
func (p painter) documents(name string, list []evalDocument) {
	if len(list) == 0 {
		fmt.Fprintf(p.w, "  %-8s nothing\n", name)
	}
	shown := list[:min(mostShown, len(list))]
	widest := 0
	for _, d := range shown {
		widest = max(widest, utf8.RuneCountInString(terminal.Clean(d.ID)))
	}
	for _, d := range shown {
		rank, mark := fmt.Sprint(d.Rank), " "
		if d.Rank == 0 {
			rank = ">100"
		}
		if d.Grade > 0 {
			mark = "+"
		}
		line := fmt.Sprintf("  %-8s %4s %s %-*s  ", name, rank, mark, widest, terminal.Clean(d.ID))
		fmt.Fprintln(p.w, strings.TrimRight(line+terminal.Fit(d.Title, max(maxWidth/4, maxWidth-utf8.RuneCountInString(line))), " "))
		name = ""
	}
	if more := len(list) - len(shown); more > 0 {
		fmt.Fprintf(p.w, "  %-8s and %d more\n", "", more)
	}
}
