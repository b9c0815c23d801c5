package record

import (
	"encoding/json"
	"slices"
	"strings"

	"sidenote/proxy/report"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

const (
	// maxEarlier limits the earlier messages of a record. Of each, the ends are kept, as a search uses
	// them.
	maxEarlier = 16
	// maxCopied is the largest body in bytes that is copied for a record; of a larger one, such as a
	// chat with images, only the question and the messages before it are.
	maxCopied = 256 << 10
	// maxDraftBuffer is the largest buffer of a Draft, in bytes, that is used again.
	maxDraftBuffer = 64 << 10
	// draftSize is about what a Draft takes in memory besides the body, in bytes.
	draftSize = 16 << 10
)

// A Draft collects what is recorded of a request while it is served. The nil Draft records nothing.
// It is used by one goroutine at a time. Its methods allocate nothing for a usual chat.
type Draft struct {
	to         *target
	size       int64 // that counts for maxDrafts
	id, tenant string
	report     report.Report

	previous, next *Draft // in Recorder.live

	model    string
	asked    rewrite.Options
	api      chat.API
	body     []byte // as received, or of parsed; empty if it is too long
	received int    // bytes of the body as received
	whole    bool   // body is as received

	question string   // if body does not tell it, shortened
	earlier  []string // likewise, last message first

	answer Answer // whose citations are counted in the background; zero for none

	experiment, arm string
}

// Ask notes what a request asks: its body as received, decompressed, the parsed request, whose body
// may be another one, and the merged options.
func (d *Draft) Ask(received []byte, req *chat.Request, asked *rewrite.Options) {
	if d == nil {
		return
	}
	d.api, d.model, d.received = req.API, req.Model, len(received)
	d.asked = rewrite.Options{Mode: asked.Mode, Knowledge: asked.Knowledge, ContextTokens: asked.ContextTokens, Query: asked.Query, Filter: asked.Filter, Earlier: asked.Earlier}
	limit := maxCopied
	if s := d.to.settings.Load(); s != nil && s.Requests {
		limit = min(16*maxCopied, int(s.bounds().segment()/2))
	}
	fits := len(received) <= limit && d.to.of.grow(d, int64(len(received)))
	if d.whole = fits; fits {
		d.body = append(d.body[:0], received...)
	}
	if !fits || len(req.Body) != len(received) || &req.Body[0] != &received[0] {
		last := 0
		d.question, last = req.Question()
		d.earlier = earlierTexts(req, last, followup.MaxBytes)
	}
}

// earlierTexts returns the user's messages before the last one, last first, of each at most so many
// bytes.
func earlierTexts(req *chat.Request, last, most int) (earlier []string) {
	for text := range req.Earlier(max(last, 0), most, nil) {
		if earlier = append(earlier, text); len(earlier) == maxEarlier {
			break
		}
	}
	return earlier
}

// An Answer is the answer of an upstream, as received.
type Answer struct {
	Coding string // its Content-Encoding
	Stream bool
	Body   []byte
	kept   bool
}

// Answers begins to collect the answer, so that its citations are counted in the background. It is
// not called for an answer whose citations are counted while it is relayed.
func (d *Draft) Answers(coding string, stream bool) {
	if d != nil {
		d.answer = Answer{coding, stream, d.answer.Body[:0], true}
	}
}

// Piece adds a piece to the answer. A longer one than maxCopied is not looked at.
func (d *Draft) Piece(piece []byte) {
	if d == nil || !d.answer.kept {
		return
	}
	if len(d.answer.Body)+len(piece) > maxCopied || !d.to.of.grow(d, int64(len(piece))) {
		d.answer.kept = false
		return
	}
	d.answer.Body = append(d.answer.Body, piece...)
}

// A CountFunc counts the citations of an answer to a parsed request, and notes them in the report.
type CountFunc func(r *report.Report, req *chat.Request, a *Answer)

// count counts the citations of the answer, if all of it was collected.
func (d *Draft) count(req *chat.Request) {
	if d.report.Client != report.ClientCompleted || d.report.Truncated {
		return
	}
	if count := d.to.of.citations.Load(); count != nil && d.answer.kept && len(d.answer.Body) > 0 {
		(*count)(&d.report, req, &d.answer)
	}
}

// Experiment notes that the request is a part of an experiment.
func (d *Draft) Experiment(name, arm string) {
	if d != nil {
		d.experiment, d.arm = name, arm
	}
}

// Finish hands the draft over to be recorded in the background. It must not be used afterwards.
func (d *Draft) Finish(r *report.Report) {
	if d == nil {
		return
	}
	d.report = *r
	d.report.Calls = nil // their memory is used again
	d.to.of.enqueue(item{draft: d})
}

// Discard drops the draft: the request is not recorded. It must not be used afterwards.
func (d *Draft) Discard() {
	if d != nil {
		d.to.of.release(d)
	}
}

// reset clears the draft for another request.
func (d *Draft) reset() {
	body, said := reused(d.body), reused(d.answer.Body)
	*d = Draft{}
	d.body, d.answer.Body = body, said
}

// reused returns an empty buffer in the memory of another, unless that is large.
func reused(buffer []byte) []byte {
	if cap(buffer) > maxDraftBuffer {
		return nil
	}
	return buffer[:0]
}

// record returns the record of the draft. parser is only used meanwhile.
func (d *Draft) record(parser *chat.Parser, s *Settings) *Record {
	question, earlier := d.read(parser, &s.Redact)
	r := &d.report
	of := &Record{
		ID: r.ID, Time: r.Time, Tenant: r.Tenant, Policy: r.Policy, Hash: r.PolicyHash, API: r.API(), Row: r.Model(), Mode: r.Mode, Stream: r.Stream,
		Outcome: r.Outcome, Reason: r.Reason, Status: r.Status, Tokens: r.Rewrite.Ledger.Grown(), Budget: r.Rewrite.Ledger.Budget,
		PromptTokens: int(r.Usage.Input), CompletionTokens: int(r.Usage.Output), Cost: float64(r.Budget.Charged.Money) / 1e9,
		RetrievalMS: report.Milliseconds(r.Rewrite.RetrieveTook), OverheadMS: report.Milliseconds(r.Overhead), TotalMS: report.Milliseconds(r.Total),
		Experiment: d.experiment, Arm: d.arm, BodyBytes: d.received,
	}
	if c := r.Citations; c != nil {
		of.Checked, of.Unknown = c.Unread == "", c.Unknown
	}
	for _, b := range r.Rewrite.Retrieval.Bases {
		of.Bases = append(of.Bases, Base{b.Knowledge, b.Generation})
	}
	of.Degraded = degraded(r)
	d.addTexts(of, s, question, earlier)
	d.addSources(of, s)
	return of
}

// degraded names what failed or was late in the search of a request; "" for nothing.
func degraded(r *report.Report) string {
	found, l := &r.Rewrite.Retrieval, &r.Rewrite.Ledger
	switch {
	case r.Degraded(), found.Partial:
		return "search"
	case l.EmbedFailure != "":
		return "embed"
	case r.PlanFailed() != "":
		return "plan"
	case r.RerankFailed() != "":
		return "rerank"
	case r.GradeFailed() != "":
		return "grade"
	case l.Late > 0:
		return "deadline"
	}
	return string(found.Degraded)
}

// read returns the redacted question and the messages before it, last first, and counts the
// citations of the answer.
func (d *Draft) read(parser *chat.Parser, redact *Redactor) (question string, earlier []string) {
	question = redact.shortened(d.question, chat.MaxQuery)
	for _, text := range d.earlier {
		earlier = append(earlier, redact.shortened(text, followup.MaxBytes))
	}
	if !d.whole {
		return question, earlier
	}
	defer parser.Reset()
	req, err := parser.Parse(d.api, d.body)
	if err != nil {
		return question, earlier
	}
	if question == "" && earlier == nil { // shortened afterwards, as a part of a secret may not be recognized
		whole, last := req.WholeQuestion()
		question = chat.ClipQuestion(redact.Text(whole))
		for _, text := range earlierTexts(req, last, len(req.Body)) {
			earlier = append(earlier, followup.Clip(redact.Text(text)))
		}
	}
	d.count(req)
	return question, earlier
}

// addTexts adds the texts of the request, of which the question and the messages before it, last
// first, are redacted already.
func (d *Draft) addTexts(of *Record, s *Settings, question string, earlier []string) {
	var held []string
	for _, text := range d.asked.Earlier {
		held = append(held, s.Redact.shortened(text, followup.MaxBytes))
	}
	if question == "" && len(held) > 0 { // a round of a tool loop whose question the upstream holds
		question, held = held[0], held[1:]
	}
	earlier = append(earlier, held...)
	of.Model, of.Question, of.Earlier = short(s.Redact.name(d.model)), question, earlier[:min(len(earlier), maxEarlier)]
	slices.Reverse(of.Earlier)
	if f := d.report.Rewrite.Ledger.Filter; f != nil {
		of.Filter = s.Redact.filter([]byte(f.String()))
	}
	of.Asked = d.askedFor(s)
	if s.Requests && d.whole {
		of.Body = s.Redact.JSON(d.body)
	}
	if block := d.report.Rewrite.Block; block != nil {
		of.Block = s.Redact.Text(chat.Unescape(block))
	} else if d.report.Rewrite.Outcome == rewrite.Injected {
		of.Block = s.Redact.Text(rewrite.InsertedText(d.report.Rewrite.Edits))
	}
}

// askedFor returns the options of the request, nil if it has none.
func (d *Draft) askedFor(s *Settings) *Asked {
	o := &d.asked
	if o.Mode == nil && o.Knowledge == nil && o.ContextTokens == nil && o.Query == "" && o.Filter == nil {
		return nil
	}
	a := &Asked{Query: s.Redact.shortened(o.Query, chat.MaxQuery)} // it may be that of chunks
	if o.Mode != nil {
		a.Mode = o.Mode.String()
	}
	for _, id := range o.Knowledge { // it may name bases that do not exist
		a.Knowledge = append(a.Knowledge, short(s.Redact.name(id)))
	}
	if o.ContextTokens != nil {
		a.ContextTokens = *o.ContextTokens
	}
	if o.Filter != nil {
		a.Filters = s.Redact.filter([]byte(o.Filter.String()))
	}
	return a
}

// maxShort limits the bytes of a name that a request brings.
const maxShort = 256

func short(name string) string {
	if len(name) <= maxShort {
		return name
	}
	return strings.ToValidUTF8(name[:maxShort], "")
}

// addSources adds the sources that the model was given.
func (d *Draft) addSources(of *Record, s *Settings) {
	l := &d.report.Rewrite.Ledger
	add := func(list []rewrite.SourceEntry) {
		for i := range list {
			if e := &list[i]; e.ID > 0 {
				of.Sources = append(of.Sources, Source{
					ID: e.ID, Knowledge: e.Knowledge, Doc: e.Doc, Chunk: e.Chunk, Name: s.Redact.Text(e.Name), Section: s.Redact.Text(e.Section),
					Relevance: e.Relevance, Tokens: e.Tokens, Cited: e.Cited, Support: e.Support,
				})
			}
		}
	}
	if l.Repeated != nil {
		add(l.Repeated.Sources)
	}
	add(l.Sources)
	if t := d.report.Tools; t != nil {
		add(t.Sources)
	}
	slices.SortStableFunc(of.Sources, func(a, b Source) int { return a.ID - b.ID })
}

// encode returns the record as an entry.
func (r *Record) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return appendEntry(make([]byte, 0, entryHead+len(text)), entryRecord, r.Time, text), nil
}
