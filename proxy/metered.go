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

// measure prepares a request for metering, if its policy asks for that. body must be complete and
// decompressed. The error refuses a body in which another server could read other limits.
func (x *exchange) measure(body []byte) error {
	if !x.policy.Metered {
		return nil
	}
	if x.parser == nil { // on routes other than chat
		x.parser = x.server.parsers.Get().(*rewrite.Parser)
	}
	return x.meterBody(&x.limits, x.parser, body, x.upstream)
}

// meterBody prepares a body for metering in r, parsed by p, and sets the metering fields of x. to
// is the upstream that gets the body.
func (x *exchange) meterBody(r *rewrite.MeteredRequest, p *rewrite.Parser, body []byte, to *backend) error {
	if err := r.ReadBy(p, meteredRouteOf(x.target.Route), body); err != nil {
		return err
	}
	m := x.setup.rewriter.Models.Model(r.ModelName())
	r.OutputCaps = rewrite.OutputCaps{Tenant: x.policy.OutputCap, Model: cmp.Or(m.MaxOutput, m.ReservedOutput()), Default: int(x.policy.Budget.DefaultOutput()), Completion: m.CompletionCap}
	r.IncludeUsage = !to.noUsage
	x.avoidRefused(r, to)
	x.metered, x.row, x.window = r, m.Row, m.Window
	if x.target.Route != route.Embeddings { // embeddings answer without text
		x.counter = m.Counter
	}
	return nil
}

// fitAnswer lowers the default limit of the answer to what the prompt leaves of the context
// window, because upstreams refuse a prompt and a limit that together do not fit. If the prompt
// leaves nothing the upstream decides.
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

// plainStreams asks for an uncompressed answer if the answer is to be edited.
func (x *exchange) plainStreams(lines []transport.Header) []transport.Header {
	if x.tools == nil && x.checker == nil && (x.metered == nil || !x.metered.HidesUsage()) {
		return lines
	}
	return append(slices.Clip(lines), transport.Header{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"})
}

// hideUsage removes the usage from a stream whose client did not ask for it.
func (x *exchange) hideUsage(ans *transport.Answer, how *transport.Relay) {
	if x.metered == nil || !x.metered.HidesUsage() || !x.streaming || ans.Status() != fasthttp.StatusOK ||
		!answer.PlainCoding(string(ans.Header(fasthttp.HeaderContentEncoding))) {
		return
	}
	how.Filter = func(w io.Writer) io.WriteCloser { return answer.NewUsageHider(w) }
}

// allEdits adds the edits of tools and of metering to those of the rewrite, and records them in
// the ledger.
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
	x.chunks.Record(&x.report.Rewrite.Ledger)
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
