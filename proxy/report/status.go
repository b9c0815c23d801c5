package report

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"sidenote/proxy/answer"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Response headers that Sidenote sets. Headers of these names from an upstream are removed.
const (
	HeaderID      = "Sidenote-Id"
	HeaderStatus  = "Sidenote-Status"
	HeaderSources = "Sidenote-Sources"
)

// MaxSourcesBytes limits the value of Sidenote-Sources: common servers refuse header sections over
// 8 KiB, and this leaves room for the upstream's.
const MaxSourcesBytes = 4 << 10

// Expose says how much the response headers reveal about the sources.
type Expose string

// The levels of Sidenote-Sources. Names are those of documents and of their sections.
const (
	ExposeNone  Expose = "none"
	ExposeIDs   Expose = "ids"
	ExposeNames Expose = "names"
)

// AppendStatus appends r's Sidenote-Status: one item of RFC 9651, a token with parameters. It
// holds what is known when the response header is sent.
func AppendStatus(dst []byte, r *Report) []byte {
	dst = appendToken(dst, string(r.Outcome))
	if r.Reason != "" {
		dst = appendToken(append(dst, "; reason="...), string(r.Reason))
	}
	if api := r.API(); api != "" {
		dst = append(dst, "; api="+api...)
	}
	if rule := r.Rewrite.Ledger.Background; rule != "" {
		dst = appendToken(append(dst, "; rule="...), rule)
	}
	if r.SwitchedFrom != "" {
		dst = appendToken(append(dst, "; switched-from="...), r.SwitchedFrom)
	}
	if r.Retried() && r.Outcome != Failed && r.Outcome != rewrite.Refused {
		dst = append(dst, "; retry=context-length"...)
	}
	if r.Refused != 0 {
		dst = append(append(dst, "; retry="...), r.Refused.String()...)
	}
	if r.LeftOut != 0 {
		dst = append(append(dst, "; left-out="...), r.LeftOut.String()...)
	}
	if r.Budget.Rung != "" {
		dst = appendToken(append(dst, "; ladder="...), r.Budget.Rung)
	}
	l := &r.Rewrite.Ledger
	if c := l.Chunks; c != nil && r.Outcome != rewrite.Refused {
		dst = strconv.AppendInt(append(dst, `; chunks="`...), int64(c.In), 10)
		dst = append(strconv.AppendInt(append(dst, '/'), int64(c.Total), 10), '"')
	}
	dst = appendToolRounds(dst, r)
	dst = appendCitations(appendStaged(dst, r), r.Citations)
	if r.Injected() {
		return appendInjected(dst, r)
	}
	dst = appendDegraded(dst, r)
	dst = appendStages(dst, r)
	if r.Reason == rewrite.ReasonWindow {
		dst = appendWindow(dst, l)
	}
	return dst
}

// appendToolRounds appends the rounds and calls of tools, or why no tools were offered.
func appendToolRounds(dst []byte, r *Report) []byte {
	t := r.Tools
	if t == nil || !t.Ended {
		if r.ToolsSkipped != "" {
			dst = appendToken(append(dst, "; unoffered="...), r.ToolsSkipped)
		}
		return dst
	}
	dst = appendCount(dst, "rounds", t.Rounds)
	dst = appendCount(dst, "calls", t.Called())
	dst = appendCount(dst, "tokens", t.Tokens)
	if t.Restored > 0 {
		dst = appendCount(dst, "restored", t.Restored)
	}
	if t.TurnLoss != "" {
		dst = appendToken(append(dst, "; unkept="...), string(t.TurnLoss))
	}
	return dst
}

// appendInjected appends the sources, tokens and budget of a chat with injected sources.
func appendInjected(dst []byte, r *Report) []byte {
	l := &r.Rewrite.Ledger
	dst = appendCount(dst, "sources", r.Sources())
	dst = appendCount(dst, injectedTokens(r), l.Used)
	dst = appendCount(dst, "budget", l.Budget)
	if l.Exactness != "" {
		dst = appendToken(append(dst, "; "...), string(l.Exactness))
	}
	if l.Exactness == rewrite.Estimated && l.Encoding != "" {
		dst = appendToken(append(dst, "; encoding="...), l.Encoding)
	}
	if r.Rewrite.Model.Window == 0 {
		dst = append(dst, "; window=unknown"...)
	}
	if c := r.Rewrite.Retrieval.Cache; c != "" {
		dst = appendToken(append(dst, "; cache="...), string(c))
	}
	dst = appendDegraded(dst, r)
	if l.Planned == nil {
		dst = append(dst, "; planner="+PlannerOff...)
	}
	dst = appendStages(dst, r)
	dst = appendCount(dst, "retrieval-ms", int(r.Rewrite.RetrieveTook.Milliseconds()))
	dst = appendCount(dst, "rules", l.Rules)
	dst = appendCount(dst, "tags", l.Tags)
	dst = appendCount(dst, "text", l.Text)
	if l.Placement != "" && l.Placement != rewrite.PlaceSystem {
		dst = appendToken(append(dst, "; placement="...), string(l.Placement))
	}
	if l.Repeated != nil {
		dst = appendCount(dst, "earlier-sources", len(l.Repeated.Sources))
		dst = appendCount(dst, "earlier-tokens", l.Repeated.Tokens)
	}
	if l.Truncation != "" {
		dst = appendToken(append(dst, "; truncation="...), l.Truncation)
	}
	return appendWindow(dst, l)
}

// appendCitations appends the counts of citations, if the answer was read before its header was
// sent.
func appendCitations(dst []byte, c *answer.CitationReport) []byte {
	switch {
	case c == nil:
		return dst
	case c.Unread != "":
		return appendToken(append(dst, "; citations="...), string(c.Unread))
	}
	dst = appendCount(dst, "citations", c.Times())
	if c.Unknown > 0 {
		dst = appendCount(dst, "unknown_citations", c.Unknown)
	}
	return dst
}

// maxModelID limits the bytes of a model's name that are shown, since requests may choose it.
const maxModelID = 64

// ModelID returns the name of a planner's model, cut to maxModelID.
func ModelID(p *retrieval.Planned) string {
	if len(p.ModelID) <= maxModelID {
		return p.ModelID
	}
	return strings.ToValidUTF8(p.ModelID[:maxModelID], "")
}

// appendPlanned appends the outcome of planning, if any.
func appendPlanned(dst []byte, p *retrieval.Planned) []byte {
	if p == nil {
		return dst
	}
	dst = appendToken(append(dst, "; planner="...), string(p.Fallback))
	dst = appendCount(dst, "retrieval_query_count", p.Count)
	if p.Applied {
		dst = append(dst, "; retrieval_query_planner_applied"...)
	}
	return appendString(append(dst, "; retrieval_query_planner_model_id="...), ModelID(p))
}

// appendReranked appends the outcome of reranking, if any.
func appendReranked(dst []byte, r *retrieval.Reranked) []byte {
	if r == nil {
		return dst
	}
	return appendToken(append(dst, "; rerank="...), string(r.Reason))
}

// appendGraded appends the outcome of grading, if any. rounds is the parameter for the number of
// searches.
func appendGraded(dst []byte, g *retrieval.Graded, rounds string) []byte {
	if g == nil {
		return dst
	}
	dst = appendToken(append(dst, "; grade="...), string(g.Reason))
	if g.Verdict != "" {
		dst = appendToken(append(dst, "; verdict="...), string(g.Verdict))
	}
	if g.Rounds > 0 {
		dst = appendCount(dst, rounds, g.Rounds)
	}
	return dst
}

// appendStages appends the outcomes of planning, reranking and grading.
func appendStages(dst []byte, r *Report) []byte {
	l, rounds := &r.Rewrite.Ledger, "rounds"
	if r.Tools != nil {
		rounds = "grade-rounds" // "rounds" already counts calls of the upstream
	}
	return appendGraded(appendReranked(appendPlanned(dst, l.Planned), l.Reranked), l.Graded, rounds)
}

// appendDegraded appends the search stage that was skipped after a failure, and late lookups.
func appendDegraded(dst []byte, r *Report) []byte {
	if d := r.Rewrite.Retrieval.Degraded; d != "" {
		dst = appendToken(append(dst, "; degraded="...), string(d))
	}
	l := &r.Rewrite.Ledger
	if l.EmbedFailure != "" {
		dst = appendToken(append(dst, "; embed="...), string(l.EmbedFailure))
	}
	if l.Late > 0 {
		dst = appendCount(dst, "late", l.Late)
	}
	return dst
}

// appendWindow appends the token counts of a request's parts, if it was counted, and the
// calibration that was applied.
func appendWindow(dst []byte, l *rewrite.Ledger) []byte {
	w := &l.Window
	if c := w.Cost; c != nil {
		if w.Size > 0 {
			dst = appendCount(dst, "window", w.Size)
		}
		dst = appendCount(dst, "request", w.Request)
		dst = appendCount(dst, "messages", c.Messages)
		for _, part := range [...]struct {
			key string
			n   int
		}{{"tools", c.Tools}, {"format", c.Format}, {"images", c.Images}, {"reserve", w.Reserve}} {
			if part.n > 0 {
				dst = appendCount(dst, part.key, part.n)
			}
		}
		dst = appendCount(dst, "reserved-output", w.ReservedOutput)
	}
	v := l.Calibration
	switch {
	case v == nil:
	case l.Exactness == rewrite.Estimated && v.RatioUpper > 0:
		dst = strconv.AppendFloat(append(dst, "; calibration="...), v.RatioUpper, 'f', 3, 64)
	default:
		dst = appendCount(dst, "calibration", max(v.OffsetUpper, 0)) // a negative offset is not relied on
	}
	return dst
}

func appendCount(dst []byte, key string, n int) []byte {
	return strconv.AppendInt(append(append(append(dst, "; "...), key...), '='), int64(n), 10)
}

// AppendSources appends the value of Sidenote-Sources: a list of RFC 9651 with one member per
// source in the prompt, by its id there. A member that would exceed MaxSourcesBytes is left out.
// ExposeNone appends nothing.
func AppendSources(dst []byte, sources []rewrite.SourceEntry, expose Expose) []byte {
	if expose == ExposeNone {
		return dst
	}
	start := len(dst)
	for i := range sources {
		s := &sources[i]
		if s.ID <= 0 {
			continue
		}
		whole := len(dst)
		if whole > start {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendInt(append(dst, '"'), int64(s.ID), 10)
		dst = appendString(append(dst, `";kb=`...), s.Knowledge)
		dst = appendString(append(dst, ";doc="...), s.Doc)
		if expose == ExposeNames && s.Name != "" {
			dst = appendString(append(dst, ";name="...), s.Name)
		}
		if expose == ExposeNames && s.Section != "" {
			dst = appendString(append(dst, ";section="...), s.Section)
		}
		if expose == ExposeNames && s.Date != "" {
			dst = appendString(append(dst, ";date="...), s.Date)
		}
		if len(dst)-start > MaxSourcesBytes {
			dst = dst[:whole]
		}
	}
	return dst
}

// appendToken appends s as a token or key of RFC 9651. Invalid bytes become '_', so that no value
// can break out of the field; our own constants have none.
func appendToken(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(dst, s...)
	for i, c := range dst[start:] {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			dst[start+i] = '_'
		}
	}
	return dst
}

// appendString appends s as a String (RFC 9651 §4.1.6) if it is printable ASCII, else as a Display
// String (§4.1.11), which percent-encodes all other bytes. So control characters are never sent.
func appendString(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(append(dst, '"'), s...)
	if Printable(dst[start+1:]) {
		return append(dst, '"')
	}
	dst = dst[:start]
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return appendDisplay(dst, s)
		}
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// Printable reports whether b needs no escapes between quotes in JSON and RFC 9651, which is so
// for nearly all names. It checks eight bytes at once.
func Printable(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		eight := binary.LittleEndian.Uint64(b)
		quote, slash := eight^'"'*ones, eight^'\\'*ones
		below, beyond := (eight-' '*ones)&^eight, eight|(eight+ones) // ' ' and '~'
		if (below|beyond|(quote-ones)&^quote|(slash-ones)&^slash)&tops != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendDisplay(dst []byte, s string) []byte {
	dst = append(dst, '%', '"')
	for _, r := range s { // range yields U+FFFD for invalid bytes, since the format allows only UTF-8
		if r >= ' ' && r <= '~' && r != '%' && r != '"' {
			dst = append(dst, byte(r))
			continue
		}
		var buf [utf8.UTFMax]byte
		for _, b := range buf[:utf8.EncodeRune(buf[:], r)] {
			const hex = "0123456789abcdef"
			dst = append(dst, '%', hex[b>>4], hex[b&15])
		}
	}
	return append(dst, '"')
}

// recordCitations counts the citations of an answer. c is nil if they were not checked.
func recordCitations(m *Metrics, c *answer.CitationReport) {
	if c == nil {
		return
	}
	m.citations.WithLabelValues("given").Add(float64(c.Times()))
	m.citations.WithLabelValues("unknown").Add(float64(c.Unknown))
	if c.Unread != "" {
		m.citationsUnread.WithLabelValues(string(c.Unread)).Inc()
	}
	for i := range c.Cited {
		if s := c.Cited[i].Support; s != nil {
			m.support.Observe(*s)
		}
	}
}
