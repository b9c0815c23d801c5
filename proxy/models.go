package proxy

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// checkTargetModels refuses a request whose path names a model that its policy does not allow, or
// whose query could name a model.
func (q *request) checkTargetModels() error {
	if err := q.checkQuery(); err != nil {
		return err
	}
	return q.policy.Models.Allow(q.target.PathModels()...)
}

// checkQuery refuses a query that could name a model, since some gateways prefer that to the
// body's.
func (q *request) checkQuery() error {
	_, query, _ := bytes.Cut(q.ctx.Request.Header.RequestURI(), []byte("?"))
	if text, err := url.QueryUnescape(string(query)); err != nil || strings.Contains(strings.ToLower(text), "model") {
		return &tenant.APIError{Reason: report.ReasonPath, Message: "The query could name a model; name it in the body only."}
	}
	return nil
}

// checkModels refuses a request unless its policy allows all models that it names. If the policy
// lists models the request must name one, as otherwise the upstream would choose. body must be
// complete and decompressed.
func (q *request) checkModels(body []byte) error {
	if q.policy.Models == nil {
		return nil
	}
	names, err := bodyModels(&q.ctx.Request.Header, body)
	if err != nil {
		return err
	}
	if len(names) == 0 && len(q.target.PathModels()) == 0 {
		return &tenant.APIError{Reason: report.ReasonModel, Message: "The request names no model, and your key is for some models only; name one in the field model."}
	}
	return q.policy.Models.Allow(names...)
}

// bodyModels returns the models that a body names. It refuses bodies that servers could read
// differently.
func bodyModels(h *fasthttp.RequestHeader, body []byte) ([]string, error) {
	kind, boundary, err := formType(h)
	switch {
	case err != nil:
		return nil, err
	case kind == Form:
		return formModels(body, boundary)
	}
	return rewrite.NamedModels(body)
}

// checkRelayedModels is checkModels for a request that Sidenote does not rewrite. It reads the
// body and puts it into the call unchanged.
func (x *exchange) checkRelayedModels(call *transport.Call) error {
	if string(x.ctx.Method()) != fasthttp.MethodPost {
		return nil
	}
	body, _, err := x.readBody()
	if err != nil {
		return err
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	if x.compressed != nil {
		body = x.compressed
	}
	call.Body, call.Whole, call.Same, call.NoUpgrade = [][]byte{body}, true, true, true
	return nil
}
