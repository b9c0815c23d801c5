package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// stageKey tells apart whom a stage is asked of: the upstream, the path on it, which may name a model, and
// the credentials where they are the caller's own.
func (x *exchange) stageKey(upstream string) string {
	to := x.upstream
	if upstream != "" {
		to = x.setup.upstreams[upstream]
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %q %q", to.name, to.of.BaseURL, transport.TargetOn(to.of.BaseURL, x.ctx.Request.Header.RequestURI(), ""))
	if to == x.upstream {
		own := credentials(&x.request)
		for _, name := range slices.Sorted(maps.Keys(own)) {
			_, _ = fmt.Fprintf(sum, " %q %q", name, own[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// anotherRequest leaves out the client's idempotency key: it is of the client's request only, and an upstream that
// knows it would answer a further request as that one.
var anotherRequest = transport.Header{Name: "Idempotency-Key"}

// headOfStage replaces lines of the client's head for a call whose body is not the client's.
func headOfStage(q *request, to *backend, stage bool) []transport.Header {
	replace := []transport.Header{{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"}, {Name: fasthttp.HeaderContentEncoding}}
	if stage {
		replace = append(replace, anotherRequest)
	}
	if to == q.upstream {
		return append(replace, q.replacements()...)
	}
	replace = append(replace, to.replace...)
	for _, name := range q.ctx.Request.Header.PeekKeys() {
		if !slices.Contains(anonymous[:], strings.ToLower(string(name))) {
			replace = append(replace, transport.Header{Name: string(name)})
		}
	}
	return replace
}

// anonymous are the lines of a client's head that go to an upstream that is not the client's: they say nothing
// of who the client is. What else is a credential somewhere nobody can know.
var anonymous = [...]string{"accept", "content-type", "user-agent", "traceparent", "tracestate", "x-request-id"}
