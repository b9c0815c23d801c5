package proxy

import (
	"cmp"
	"io"
	"slices"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// measure makes a request ready to be metered, if its policy asks for that. body is whole, and
// decompressed. If another server could read other limits in it, the error refuses it.
func (x *exchange) measure(body []byte) error {
	if !x.policy.Metered {
		return nil
	}
	if x.parser == nil { // on routes other than chat
		x.parser = x.server.parsers.Get().(*rewrite.Parser)
	}
	return x.meterBody(&x.limits, x.parser, body, x.upstream)
}

// meterBody makes a body that goes to an upstream ready to be metered in r, which p reads.
func (x *exchange) meterBody(r *rewrite.MeteredRequest, p *rewrite.Parser, body []byte, to *backend) error {
	if err := r.ReadBy(p, meteredRouteOf(x.target.Route), body); err != nil {
		return err
	}
	m := x.setup.rewriter.Models.Model(r.ModelName())
	r.OutputCaps = rewrite.OutputCaps{Tenant: x.policy.OutputCap, Model: cmp.Or(m.MaxOutput, m.ReservedOutput()), Default: int(x.policy.Budget.DefaultOutput()), Completion: m.CompletionCap}
	r.IncludeUsage = !to.noUsage
	x.avoidRefused(r, to)
	x.metered, x.row, x.window = r, m.Row, m.Window
	if x.target.Route != route.Embeddings { // these have no text
		x.counter = m.Counter
	}
	return nil
}

// fitAnswer keeps the limit of an answer that the request does not limit within what its prompt
// leaves of the window: upstreams refuse a prompt and a limit that together do not fit. Where a
// prompt leaves nothing, the upstream decides.
func (x *exchange) fitAnswer(prompt int64) {
	if x.metered == nil {
		return
	}
	usual := int(x.policy.Budget.DefaultOutput())
	x.metered.Default = usual
	if room := x.window - int(prompt) - numberSlack; room > 0 {
		x.metered.Default = min(cmp.Or(usual, room), room)
	}
}

// plainStreams replaces Accept-Encoding for a request whose answer is to be edited: what is
// compressed cannot be.
func (x *exchange) plainStreams(lines []transport.Header) []transport.Header {
	if x.tools == nil && x.checker == nil && (x.metered == nil || !x.metered.HidesUsage()) {
		return lines
	}
	return append(slices.Clip(lines), transport.Header{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"})
}

// hideUsage hides from the client that its stream tells what it used, if it did not ask for
// that.
func (x *exchange) hideUsage(ans *transport.Answer, how *transport.Relay) {
	if x.metered == nil || !x.metered.HidesUsage() || !x.streaming || ans.Status() != fasthttp.StatusOK ||
		!answer.PlainCoding(string(ans.Header(fasthttp.HeaderContentEncoding))) {
		return
	}
	how.Through = func(w io.Writer) io.WriteCloser { return answer.NewUsageHider(w) }
}

// allEdits adds the edits of a metered request, and of one with tools, to those of its rewrite, and
// to the ledger.
func (x *exchange) allEdits(edits []rewrite.Edit) []rewrite.Edit {
	if x.metered == nil && x.tools == nil {
		return edits
	}
	if x.tools != nil {
		edits = x.tools.Join(edits)
	}
	if x.metered != nil {
		if mine := x.metered.Edits(); len(mine) > 0 {
			edits = rewrite.MergeEdits(edits, mine)
		}
	}
	x.report.Rewrite.Ledger.Edits = edits
	x.chunks.Tell(&x.report.Rewrite.Ledger)
	return edits
}

// relayMetered reads the body of a metered request that is not rewritten, and sends it.
func (x *exchange) relayMetered() error {
	body, _, err := x.readBody()
	if err != nil {
		return err
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	if err := x.measure(body); err != nil {
		return err
	}
	if err := x.reserveRelayed(body); err != nil {
		return err
	}
	return x.send(body, nil)
}
