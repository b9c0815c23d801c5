package proxy

import (
	"bytes"
	"io"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/transport"
)

// RelayWhole answers a request that did not ask for a stream. how returns how to relay an answer.
// An answer that cannot be read as a chat completion, or is larger than MaxWhole, is relayed
// unchanged. It returns an error only if nothing was sent to the client.
func (r *Rounds) RelayWhole(ctx *fasthttp.RequestCtx, ans *transport.Answer, how func(*transport.Answer) transport.Relay) error {
	for {
		body, ok, err := r.readWhole(ans)
		if err != nil {
			ans.Close()
			return err
		}
		var turn answer.LoopTurn
		if ok {
			turn, ok = r.loop.EndWhole(body)
		}
		if !ok {
			ans.Relay(ctx, how(ans))
			return nil
		}
		if !r.follow(&turn) {
			body, changed := r.loop.Whole(&turn, r.vendor())
			checked := r.Host.CheckWhole(body)
			changed = changed || !bytes.Equal(checked, body)
			relay := how(ans)
			if changed {
				relay.Filter = answerInstead(relay.Filter, checked)
			}
			ans.Relay(ctx, relay)
			return nil
		}
		if err := r.loop.Continue(io.Discard); err != nil {
			return err
		}
		r.Host.ReadPiece(body)
		ans.Close()
		if ans, err = r.next(); err != nil {
			return err
		}
	}
}

// readWhole reads an answer with status 200; ok is false for others.
func (r *Rounds) readWhole(answer *transport.Answer) (body []byte, ok bool, err error) {
	if answer.Status() != fasthttp.StatusOK {
		return nil, false, nil
	}
	return readWhole(answer, r.Host)
}
