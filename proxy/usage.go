package proxy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

const (
	// maxDecoders is how many answers are decoded, or their tokens counted, at once.
	maxDecoders = 2
	// maxText is how many bytes of a metered answer are kept to count its tokens. In a stream that
	// is about a thousand tokens, as each comes in an event of 250 bytes.
	maxText = 256 << 10
	// maxUntold is how many bytes of a stream are searched for its first token.
	maxUntold = 64 << 10
)

// readAlong reads the usage of an answer while it is relayed, if it may report any. The
// answer is not changed.
func (a *account) readAlong(ans *transport.Answer) {
	a.readText(ans)
	if ans.Status() != http.StatusOK || !answer.UsageReported(a.report.Route) {
		return
	}
	if a.untold = 0; isStream(ans) && answer.PlainCoding(string(ans.Header("Content-Encoding"))) {
		a.untold = maxUntold
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
	if a.untold > 0 {
		a.awaitToken(piece)
	}
	if a.text != nil {
		a.tapText(piece)
	}
	a.draft.Piece(piece)
	if a.chain != nil {
		a.keepChain(piece)
	}
	if a.usageSkipped {
		return
	}
	defer panics.Recover(a.panicked, func() { a.usageSkipped = true })
	a.reader.Write(piece)
}

// awaitToken notes the time of the first token of a stream.
func (a *account) awaitToken(piece []byte) {
	c := &a.report.Calls[len(a.report.Calls)-1]
	if a.untold -= len(piece); answer.HasToken(a.report.Route, piece) {
		a.untold, c.FirstToken = 0, time.Since(c.Began)
	}
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
	quick := x.reader != nil && (x.usageSkipped || x.reader.Quick())
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
			x.usageSkipped = true
		}
		rest()
	}
}

// readUsage records the usage of the answer in the Report and learns from it. It keeps the reader
// only if the text is to be counted.
func (a *account) readUsage() {
	u, found := answer.Usage{}, answer.UsageUnread
	if !a.usageSkipped {
		func() {
			defer panics.Recover(a.panicked, nil)
			u, found = a.reader.Usage()
			a.watch.told = a.reader.TellsCache()
			a.readDiagnosis()
			a.nameModel()
		}()
	}
	a.report.Usage, a.report.UsageFound = u, found
	if a.terms != nil && a.terms.Priced() && !a.usageSkipped {
		func() {
			defer panics.Recover(a.panicked, nil)
			a.report.Answered = a.reader.ServedBy()
		}()
	}
	a.report.Calls[len(a.report.Calls)-1].PromptTokens = int(u.Input)
	if found.Ignored() {
		a.ignoreUsage(found)
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

// ignoreUsage records that the usage of the answer cannot be used. It logs a warning with the
// numbers once for each upstream and finding.
func (a *account) ignoreUsage(found answer.UsageFinding) {
	s := a.server
	s.metrics.UsageIgnored(a.report.Upstream, string(found))
	if a.usageSkipped {
		return
	}
	if a.report.UsageDetail = a.reader.Detail(); a.report.UsageDetail == "" {
		return
	}
	if _, known := s.liars.LoadOrStore([2]string{a.report.Upstream, string(found)}, true); !known {
		s.log.Warn("upstream reports a usage that cannot be true; it is ignored (once per upstream and kind)", "id", a.report.ID, "upstream", a.report.Upstream, "usage", string(found), "numbers", a.report.UsageDetail)
	}
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

// learn compares, in the background, the billed tokens of the prompt, 0 if unknown, with our own
// count. It does nothing if enough of these comparisons are running.
func (a *account) learn(billed int) {
	s, from, count := a.server, a.sample, a.count
	a.sample, a.count = nil, nil
	if billed == 0 && count == nil || from == nil {
		from.Drop()
		return
	}
	tenant, upstream, id, api := a.report.Tenant, a.report.Upstream, a.report.ID, a.report.Route.API()
	logPanic := func(value any, stack []byte) { s.bug(id, value, stack) } // a may belong to another request by then
	if !from.Read(logPanic, func(body []byte) {
		if n := count.ask(body); n > 0 {
			billed = n
		}
		if billed > 0 {
			s.learnFrom(tenant, upstream, api, body, billed)
		}
	}) {
		s.metrics.Shed("calibration")
	}
}

// countWait is how long an upstream may take to count tokens.
const countWait = 10 * time.Second

// A tokenCount asks an upstream that counts the tokens of requests.
type tokenCount struct {
	of CountUpstream
	to services.LLMCall
}

// tokenCount returns the tokenCount for a request; nil if its upstream is not to be asked.
func (x *exchange) tokenCount() *tokenCount {
	if x.sample == nil || x.target.Route != route.Messages || x.setup.planners == nil {
		return nil
	}
	of, ok := x.setup.planners.Counters[x.policy.Upstream]
	if !ok {
		return nil
	}
	to := services.LLMCall{Path: transport.TargetOn(x.upstream.of.BaseURL, x.ctx.Request.Header.RequestURI(), ""), Header: of.OwnHeader, Own: of.OwnHeader != nil}
	if !to.Own {
		to.Header = credentials(&x.request)
	}
	return &tokenCount{of, to}
}

// ask returns the number of tokens of a request, 0 if it is not known.
func (c *tokenCount) ask(body []byte) int {
	if c == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	n, err := c.of.API.CountTokens(ctx, c.to, body)
	if err != nil { // the upstream's health shows it
		return 0
	}
	return n
}

func (s *Server) learnFrom(tenant, upstream string, api chat.API, body []byte, billed int) {
	m, err := s.setup.Load().rewriter.Learn(tenant, upstream, api, body, billed)
	if err == nil {
		s.showWindow(upstream, m, billed)
	}
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case m.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case m.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, m.Row, m.Value.Ratio, m.Value.Offset)
	}
}

// showWindow reports the context window that an upstream was seen to serve, and logs a warning
// once for each upstream and row of the model table.
func (s *Server) showWindow(upstream string, m rewrite.Calibrated, billed int) {
	pair := [2]string{upstream, m.Row}
	if m.Window == 0 {
		if _, known := s.windows.Load(pair); known {
			s.metrics.ServedWindow(upstream, m.Row, 0)
		}
		return
	}
	s.metrics.ServedWindow(upstream, m.Row, m.Window)
	if _, known := s.windows.LoadOrStore(pair, true); !known {
		s.log.Warn(fmt.Sprintf("upstream %s truncates prompts of model %q: %d tokens were sent and %d billed. The window is taken to be %d tokens. "+
			"Serve a larger one (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or configure it: models: [{match: %q, window: %d}]",
			upstream, m.Model, m.Counted, billed, m.Window, m.Model, m.Window))
	}
}

// Limits of sampling.
const (
	maxSize  = 256 << 10 // bytes of a request's body; larger ones are not sampled
	maxReads = 2         // samples whose tokens are counted at once
	maxKept  = 64        // samples that wait for the end of their answers
)

// Samples holds the samples of requests. It is safe for concurrent use.
type Samples struct {
	work    *sync.WaitGroup // counts running comparisons
	reading chan struct{}
	kept    atomic.Int64
	pool    sync.Pool // of *sample
}

// newSamples returns Samples that count running comparisons in work.
func newSamples(work *sync.WaitGroup) *Samples {
	return &Samples{work: work, reading: make(chan struct{}, maxReads)}
}

// A sample is the body of a request as it was sent.
type sample struct {
	of   *Samples
	body []byte
}

// Take copies the pieces of a body. It returns nil if the body is too large or too many samples wait.
func (k *Samples) Take(pieces [][]byte) *sample {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size > maxSize {
		return nil
	}
	if k.kept.Add(1) > maxKept {
		k.kept.Add(-1)
		return nil
	}
	m, _ := k.pool.Get().(*sample)
	if m == nil {
		m = &sample{of: k}
	}
	m.body = slices.Grow(m.body[:0], size)
	for _, p := range pieces {
		m.body = append(m.body, p...)
	}
	return m
}

// Drop discards a sample. It does nothing if m is nil.
func (m *sample) Drop() {
	if m != nil {
		m.of.kept.Add(-1)
		m.recycle()
	}
}

func (m *sample) recycle() {
	transport.PoisonBuffer(m.body)
	m.of.pool.Put(m)
}

// Read calls compare with the body in a new goroutine, then discards the sample; compare must not
// keep the body. If too many reads are running, it discards the sample and returns false.
func (m *sample) Read(panicked panics.Handler, compare func(body []byte)) bool {
	k := m.of
	k.kept.Add(-1)
	select {
	case k.reading <- struct{}{}:
	default:
		m.recycle()
		return false
	}
	k.work.Add(1)
	panics.Go(panicked, func() {
		compare(m.body)
		m.recycle()
	}, func() {
		<-k.reading
		k.work.Done()
	})
	return true
}

// Kept returns the number of waiting samples.
func (k *Samples) Kept() int64 { return k.kept.Load() }

// Reading reports whether a sample is being read.
func (k *Samples) Reading() bool { return len(k.reading) > 0 }
