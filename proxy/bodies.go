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

// A BodyKeeper is shown the bodies of chats, before their Reports are recorded. It must
// not keep or change what it is shown, as that is used again. It must be quick, as the
// request waits, and safe for concurrent use.
type BodyKeeper interface {
	// Received takes the body as it came, or uncompressed.
	Received(r *report.Report, body []byte)
	// Sent takes the pieces of the body that goes upstream. It is called again if a
	// shorter one is sent in its place.
	Sent(r *report.Report, pieces [][]byte)
	// Answered takes what the answer to a chat said, right before its Report is recorded: that of
	// the last call, or of the stage whose output it is.
	Answered(r *report.Report, said answer.Text)
}

// keepBody shows a body of this request to the BodyKeeper, if there is one: received if
// sent is nil. A panic there costs what would have been kept, and nothing else.
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

// readText lets an answer's text be read as it passes, in place of that of the call before, if there
// is a BodyKeeper.
func (a *account) readText(ans *transport.Answer) {
	a.text = nil
	if a.server.bodies != nil && a.report.Route == route.Chat && ans.Status() == fasthttp.StatusOK {
		a.text = answer.NewTextReader(isStream(ans), string(ans.Header("Content-Encoding")), a)
	}
}

// tapText reads the next piece of the text. If that panics the text is not known.
func (a *account) tapText(piece []byte) {
	defer panics.Recover(a.panicked, func() { a.text = nil })
	_, _ = a.text.Write(piece)
}

// keepAnswer shows the BodyKeeper what was said.
func (a *account) keepAnswer() {
	if a.server.bodies == nil {
		return
	}
	defer a.giveBack() // the end of a stream may have taken some
	defer panics.Recover(a.panicked, nil)
	said := a.said
	switch outcome := a.report.Outcome; {
	case said != nil:
	case outcome == report.Staged:
		if s := a.report.Stages.Answering(); s != nil {
			said = &answer.Text{Bytes: len(s.Output), Text: s.Output, Finish: s.Finish}
		}
	case a.text != nil && outcome != report.Failed && outcome != rewrite.Refused: // else it is of a stage, or of a round
		read := a.text.Answer()
		said = &read
	}
	if said != nil {
		a.server.bodies.Answered(&a.report, *said)
	}
}
