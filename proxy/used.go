package proxy

import (
	"net/http"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

const (
	// maxDecoders is how many answers are decoded, or their tokens counted, at once.
	maxDecoders = 2
	// maxText is how many bytes of a metered answer are kept to count its tokens. In a stream that
	// is about a thousand tokens, as each comes in an event of 250 bytes.
	maxText = 256 << 10
)

// readAlong reads the usage of an answer while it is relayed, if it may report any. The
// answer is not changed.
func (a *account) readAlong(ans *transport.Answer) {
	a.readText(ans)
	if ans.Status() != http.StatusOK || !answer.UsageReported(a.report.Route) {
		return
	}
	a.reader = a.server.readers.Get()
	a.reader.Reset(a.report.Route, isStream(ans), string(ans.Header("Content-Encoding")))
	if a.counter != nil {
		a.reader.KeepText(maxText)
	}
}

// tap reads the next piece of the answer. If that panics, the answer continues but its usage is
// unknown.
func (a *account) tap(piece []byte) {
	if a.text != nil {
		a.tapText(piece)
	}
	if a.unread {
		return
	}
	defer panics.Recover(a.panicked, func() { a.unread = true })
	a.reader.Write(piece)
}

// ReadPiece reads the next piece of an answer that is not relayed as it comes. It implements
// RoundsHost.
func (a *account) ReadPiece(piece []byte) {
	if a.reader != nil {
		a.tap(piece)
	}
}

// readAndRelease reads the usage of the answer of x, which has ended, and releases x. A long read
// gets its own goroutine, as the client may have sent its next request. If maxDecoders of these
// are running, a metered answer is read here, while its client waits; other answers are not read.
func (x *exchange) readAndRelease() {
	quick := x.reader != nil && (x.unread || x.reader.Quick())
	if quick {
		x.readUsage()
	}
	if x.reader == nil {
		x.release()
		return
	}
	s := x.server
	rest := func() {
		defer x.release()
		if !quick {
			x.readUsage()
		}
		x.countText()
	}
	select {
	case s.decoders <- struct{}{}:
		s.work.Add(1)
		panics.Go(s.panicked, rest, func() {
			<-s.decoders
			s.work.Done()
		})
	default:
		if x.counter == nil || !x.policy.Metered {
			s.metrics.Shed("usage")
			x.unread = true
		}
		rest()
	}
}

// readUsage records the usage of the answer in the Report and learns from it. It keeps the reader
// only if the text is to be counted.
func (a *account) readUsage() {
	u, found := answer.Usage{}, answer.UsageUnread
	if !a.unread {
		func() {
			defer panics.Recover(a.panicked, nil)
			u, found = a.reader.Usage()
		}()
	}
	a.report.Usage, a.report.UsageFound = u, found
	if a.terms != nil && a.terms.Priced() && !a.unread {
		func() {
			defer panics.Recover(a.panicked, nil)
			a.report.Answered = a.reader.ServedBy()
		}()
	}
	a.report.Calls[len(a.report.Calls)-1].PromptTokens = int(u.Input)
	if found.Ignored() {
		a.server.metrics.UsageIgnored(a.report.Upstream, string(found))
	}
	needsText := !u.Known
	if a.spending != nil {
		needsText = a.spending.NeedsText(&a.report)
	}
	if a.counter == nil || !needsText || found == answer.UsageUnread {
		a.freeReader(found)
	}
	a.learn(int(u.Input))
}

// countText counts the tokens of a metered answer that reported no usage.
func (a *account) countText() {
	if a.reader == nil {
		return
	}
	defer panics.Recover(a.panicked, nil)
	a.report.Generated = a.reader.Generated(a.counter)
	a.freeReader(a.report.UsageFound)
}

// freeReader returns the reader to its pool, unless it has panicked.
func (a *account) freeReader(found answer.UsageFinding) {
	if found != answer.UsageUnread {
		a.server.readers.Put(a.reader)
	}
	a.reader = nil
}
