package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/cache"
	"sidenote/proxy/transport"
)

// stageOutputKey returns the cache key of the answer of an upstream to the body of a stage's request;
// "" is the client's upstream.
func (x *exchange) stageOutputKey(upstream string, body []byte) string {
	return cache.StageOutputKey(x.policy.Tenant, x.stageKey(upstream), body)
}

// stageKey returns a hash of what else a stage's answer depends on: the upstream, the path on it,
// which may name a model, and the caller's credentials if they are used.
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

// anotherRequest removes the client's idempotency key, which is for the client's own request only:
// an upstream could answer a further request as that one.
var anotherRequest = transport.Header{Name: "Idempotency-Key"}

// headOfStage returns the replacements of header lines for a call to an upstream whose body is not
// the client's. stage reports whether a stage makes the call.
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

// anonymous are the only header lines of the client that another upstream gets, since they do not
// identify the client. Any other line might be a credential.
var anonymous = [...]string{"accept", "content-type", "user-agent", "traceparent", "tracestate", "x-request-id"}
