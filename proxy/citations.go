package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// CitedDocuments looks up cited documents. Its functions must be safe for concurrent use.
type CitedDocuments struct {
	// URL returns the attribute "url" of a document, "" if it has none. nil means that no document
	// has one.
	URL func(knowledge, doc string) string
	// Terms returns the content terms of a text. nil means that statements are not compared with
	// sources.
	Terms func(text string) []string
}

// A citationStage checks the answer to one chat. Its methods do nothing on a nil citationStage.
type citationStage struct {
	*answer.CitationChecker
	report *report.Report
	stream bool // a stream is being checked; Tell reports the result when the stream has ended
}

// newCitationStage returns a citationStage for the answer to the request's chat. It returns nil if the
// policy does not annotate and nobody counts citations, if no sources are given, or if the answer is
// not text.
func (x *exchange) newCitationStage(req *chat.Request) *citationStage {
	p, r := x.policy.Citations, &x.report
	if !p.Annotate && !r.Experiment.Counted && !x.countsRounds() || !req.TextFormat || !gives(r) {
		return nil
	}
	o := citationOptions(req, r, x.server.documents, x.panicked)
	o.CountOnly, o.RemoveUnknown = !p.Annotate || r.Expose == report.ExposeNone, p.RemoveUnknown
	return &citationStage{report: r, CitationChecker: answer.NewCitations(o)}
}

// countsRounds reports whether the citations of an answer in rounds or stages are counted for a
// record. Those of other answers are counted in the background, see countCitations.
func (x *exchange) countsRounds() bool {
	return x.draft != nil && (x.tools != nil || x.staging != nil)
}

// citationOptions returns the options for the answer to a request with report r.
func citationOptions(req *chat.Request, r *report.Report, d CitedDocuments, panicked panics.Handler) answer.CitationOptions {
	return answer.CitationOptions{
		API:           req.API,
		SourceByID:    func(id int) (answer.CitedSource, bool) { return given(r, id, d) },
		SearchResults: searchResults(req, r),
		PromptMarkers: OwnMarkers(req), Terms: d.Terms, Panicked: panicked,
	}
}

// collectAnswer collects an answer for countCitations, if its request is recorded and nothing else
// counts its citations.
func (x *exchange) collectAnswer(ans *transport.Answer) {
	if x.draft != nil && x.checker == nil && !x.countsRounds() && x.reader != nil && gives(&x.report) {
		x.draft.Answers(string(ans.Header("Content-Encoding")), isStream(ans))
	}
}

// countCitations counts the citations of a recorded answer, in the background. It is a
// record.CountFunc.
func (s *Server) countCitations(r *report.Report, req *chat.Request, a *record.Answer) {
	if !req.TextFormat {
		return
	}
	body := a.Body
	if !answer.PlainCoding(a.Coding) {
		var err error
		if body, err = answer.DecodeText(a.Coding, body, answer.MaxCitedJSON, func(int) bool { return true }); err != nil {
			return
		}
	}
	o := citationOptions(req, r, s.documents, s.panicked)
	o.CountOnly = true
	c := &citationStage{report: r, CitationChecker: answer.NewCitations(o)}
	if a.Stream {
		w := c.Filter(io.Discard)
		_, _ = w.Write(body) // io.Discard takes everything
		_ = w.Close()
	} else {
		c.JSON(body)
	}
	c.tell()
}

// searchResults returns the function that says which search results of a request are sources.
func searchResults(req *chat.Request, r *report.Report) func() (first int, ids []int) {
	theirs := 0
	if req.API == chat.Messages && bytes.Contains(req.Body, []byte("search_result")) {
		theirs = req.SearchResults()
	}
	return func() (int, []int) {
		if of := r.Rewrite.Ledger.Results; of != nil {
			return of.First, of.IDs
		}
		return theirs, nil
	}
}

// OwnMarkers returns the citation markers in those parts of a request that the model did not
// write.
func OwnMarkers(req *chat.Request) answer.PromptMarkers {
	own := answer.PromptMarkers{}
	req.EachText(-1, func(n, _ int, raw []byte) {
		if (bytes.IndexByte(raw, '[') >= 0 || bytes.Contains(raw, []byte("【"))) && chat.RoleOf(req, n) != "assistant" {
			own.Add(chat.Unquote(raw))
		}
	})
	return own
}

// gives reports whether the model gets sources, or may get some from tools.
func gives(r *report.Report) bool {
	return r.Outcome == rewrite.Injected || r.Outcome == report.WithTools || r.Outcome == report.Staged
}

// given returns the source with an id, with what the caller may know of it.
func given(r *report.Report, id int, d CitedDocuments) (answer.CitedSource, bool) {
	e, text := entry(r, id)
	if e == nil {
		return answer.CitedSource{}, false
	}
	s := answer.CitedSource{Title: e.Doc, URL: address(e), Text: text}
	if r.Expose == report.ExposeNames {
		s.Title, s.Quote = cmp.Or(e.Name, e.Doc), text
		if d.URL != nil {
			s.URL = cmp.Or(webAddress(d.URL(e.Knowledge, e.Doc)), s.URL)
		}
	}
	return s, true
}

// entry returns the source with an id, from the prompt or a tool's result, and its text; nil if
// there is none.
func entry(r *report.Report, id int) (e *rewrite.SourceEntry, text string) {
	of := func(e rewrite.SourceEntry) bool { return e.ID == id }
	if i := slices.IndexFunc(r.Rewrite.Ledger.Sources, of); i >= 0 {
		e = &r.Rewrite.Ledger.Sources[i]
		return e, textOf(r.Rewrite.Retrieval.Sources, e)
	}
	if before := r.Rewrite.Ledger.Repeated; before != nil {
		if i := slices.IndexFunc(before.Sources, of); i >= 0 {
			return &before.Sources[i], before.Texts[i]
		}
	}
	if r.Tools == nil {
		return nil, ""
	}
	if i := slices.IndexFunc(r.Tools.Sources, of); i >= 0 {
		return &r.Tools.Sources[i], r.Tools.Texts[i]
	}
	return nil, ""
}

// textOf returns the text of a source, with its neighbouring chunks if they were added.
func textOf(sources []retrieval.Source, e *rewrite.SourceEntry) string {
	i := slices.IndexFunc(sources, func(s retrieval.Source) bool {
		return s.Knowledge == e.Knowledge && s.Doc == e.Doc && s.Chunk == e.Chunk
	})
	switch {
	case i < 0:
		return ""
	case e.Neighbours > 0:
		return sources[i].Before + "\n" + sources[i].Text + "\n" + sources[i].After
	}
	return sources[i].Text
}

// address returns the address of a source without a URL, such as "sidenote://handbook/leave.md#3".
func address(e *rewrite.SourceEntry) string {
	u := url.URL{Scheme: "sidenote", Host: e.Knowledge, Path: "/" + e.Doc}
	if e.Chunk >= 0 { // negative if a vector store does not say
		u.Fragment = strconv.Itoa(e.Chunk)
	}
	return u.String()
}

// maxAddress is the longest address, in bytes, that all browsers accept.
const maxAddress = 2048

// webAddress returns s if it is an address that a client can show as a link, else "".
func webAddress(s string) string {
	if len(s) > maxAddress {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// Tell adds the result of checking a stream, which must have ended, to the report.
func (c *citationStage) Tell() {
	if c != nil && c.stream {
		c.tell()
	}
}

func (c *citationStage) tell() {
	found, r := c.Report(), c.report
	r.Citations = &found
	l := &r.Rewrite.Ledger
	l.Sources = slices.Clone(l.Sources) // other ledgers may share them
	if l.Repeated != nil {
		again := *l.Repeated
		again.Sources, l.Repeated = slices.Clone(again.Sources), &again
	}
	for _, cited := range found.Cited {
		if e, _ := entry(r, cited.ID); e != nil {
			e.Cited, e.Support = cited.Times, cited.Support
		}
	}
}

// Relay makes how pass the answer through c, after how.Filter. An answer that is not a stream is
// buffered in memory from room, so that the response head can report the result.
func (c *citationStage) Relay(ans *transport.Answer, how *transport.Relay, room transport.BodyMemory) {
	switch {
	case c == nil || ans.Status() != http.StatusOK || !gives(c.report): // or it was sent again without sources
		return
	case !answer.PlainCoding(string(ans.Header("Content-Encoding"))):
		c.Skip(answer.UnreadEncoded)
	case bytes.HasPrefix(ans.Header("Content-Type"), []byte("text/event-stream")):
		c.Streamed(how)
		return
	default:
		if body, ok := peek(c.CitationChecker, ans, room); ok {
			if checked := c.JSON(body); !bytes.Equal(checked, body) {
				how.Filter = func(w io.Writer) io.WriteCloser { return &replacement{w, checked} }
			}
		}
	}
	c.tell()
}

// Streamed makes how pass a stream through c, after how.Filter.
func (c *citationStage) Streamed(how *transport.Relay) {
	if c == nil {
		return
	}
	c.stream = true
	before := how.Filter
	how.Filter = func(w io.Writer) io.WriteCloser {
		checked := c.Filter(w)
		if before == nil {
			return checked
		}
		return &chain{before(checked), checked}
	}
}

// Whole checks an answer that is not a stream and was already read.
func (c *citationStage) Whole(body []byte) []byte {
	if c == nil {
		return body
	}
	defer c.tell()
	return c.JSON(body)
}

// peek reads a whole answer. It returns false if the answer is not to be checked.
func peek(c *answer.CitationChecker, ans *transport.Answer, room transport.BodyMemory) (body []byte, ok bool) {
	size := answer.MaxCitedJSON
	if n, err := strconv.Atoi(string(ans.Header("Content-Length"))); err == nil {
		size = n
	}
	if size > answer.MaxCitedJSON {
		c.Skip(answer.UnreadTooLarge)
		return nil, false
	}
	if !room.Take(2 * size) { // a changed answer is copied
		c.Skip(answer.UnreadMemory)
		return nil, false
	}
	body, whole := ans.Peek(size, nil)
	switch {
	case whole:
		return body, true
	case len(body) == size:
		c.Skip(answer.UnreadTooLarge)
	default:
		c.Skip(answer.UnreadCut)
	}
	return nil, false
}

// A replacement drops what is written to it and writes a fixed text instead.
type replacement struct {
	to   io.Writer
	text []byte
}

func (r *replacement) Write(p []byte) (int, error) { return len(p), nil }

func (r *replacement) Close() error {
	_, err := r.to.Write(r.text)
	return err
}

// A chain closes two writers; the first one writes to the second.
type chain struct {
	io.WriteCloser
	second io.Closer
}

func (c *chain) Close() error { return errors.Join(c.WriteCloser.Close(), c.second.Close()) }
