package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"sidenote/proxy/transport"
)

// stageKey tells apart whom a stage is asked of: the upstream, the path on it, which may name a model, and
// the credentials where they are the caller's own.
func stageKey(x *exchange, upstream string) string {
	to := x.upstream
	if upstream != "" {
		to = x.setup.upstreams[upstream]
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %q %q", to.name, to.of.BaseURL, transport.TargetOn(to.of.BaseURL, x.ctx.Request.Header.RequestURI()))
	if to == x.upstream {
		own := credentials(&x.request)
		for _, name := range slices.Sorted(maps.Keys(own)) {
			_, _ = fmt.Fprintf(sum, " %q %q", name, own[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// credentialsFor replaces the client's credentials for an upstream: they go to its own only.
func credentialsFor(q *request, to *backend) []transport.Header {
	if to == q.upstream {
		return q.replacements()
	}
	if to.replace != nil {
		return append(slices.Clip(accounts), to.replace...)
	}
	return append(slices.Clip(accounts), withoutCredentials...)
}

// accounts removes what tells who a client is beside its credentials. It is never changed.
var accounts = []transport.Header{{Name: "Cookie"}, {Name: "Openai-Organization"}, {Name: "Openai-Project"}}
