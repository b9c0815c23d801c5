package proxy

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A BodyKeeper gets the bodies of chats, before their Reports are recorded. It must not keep or
// change its arguments, whose memory is used again. It must be quick, as the request waits, and
// safe for concurrent use.
type BodyKeeper interface {
	// Received gets the body that the client sent, decompressed.
	Received(r *report.Report, body []byte)
	// Sent gets the pieces of the body that is sent upstream. It is called again for each retry
	// and each further call.
	Sent(r *report.Report, pieces [][]byte)
	// Answered gets the text of the answer to a chat, right before its Report is recorded: that of
	// the last call, or of the stage whose output is the answer.
	Answered(r *report.Report, said answer.Text)
}

// keepBody passes a body of this request to the BodyKeeper, if there is one: received if sent is
// nil, else sent. If the BodyKeeper panics only its record is lost.
func (a *account) keepBody(received []byte, sent [][]byte) {
	bodies := a.server.bodies
	if bodies == nil {
		return
	}
	defer panics.Recover(a.panicked, nil)
	if sent == nil {
		bodies.Received(&a.report, received)
		return
	}
	bodies.Sent(&a.report, sent)
}

// readText starts reading the text of an answer while it is relayed, in place of the previous
// call's, if there is a BodyKeeper.
func (a *account) readText(ans *transport.Answer) {
	a.text = nil
	if a.server.bodies != nil && a.report.Route == route.Chat && ans.Status() == fasthttp.StatusOK {
		a.text = answer.NewTextReader(isStream(ans), string(ans.Header("Content-Encoding")), a)
	}
}

// tapText reads the next piece of the text. If that panics, the text is not recorded.
func (a *account) tapText(piece []byte) {
	defer panics.Recover(a.panicked, func() { a.text = nil })
	_, _ = a.text.Write(piece)
}

// keepAnswer passes the answer's text to the BodyKeeper, if there is one.
func (a *account) keepAnswer() {
	if a.server.bodies == nil {
		return
	}
	defer a.giveBack() // the end of a stream may have taken some memory
	defer panics.Recover(a.panicked, nil)
	said := a.said
	switch outcome := a.report.Outcome; {
	case said != nil:
	case outcome == report.Staged:
		if s := a.report.Stages.Answering(); s != nil {
			said = &answer.Text{Bytes: len(s.Output), Text: s.Output, Finish: s.Finish}
		}
	case a.text != nil && outcome != report.Failed && outcome != rewrite.Refused: // else the text is that of a stage or a round
		read := a.text.Answer()
		said = &read
	}
	if said != nil {
		a.server.bodies.Answered(&a.report, *said)
	}
}
