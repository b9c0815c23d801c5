package proxy

import (
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
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
