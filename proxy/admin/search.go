package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// search searches knowledge bases: those of the tenant of ?tenant= with its settings, or all with
// default settings if no tenant is named.
func (r request) search(ctx *fasthttp.RequestCtx) error {
	who, err := r.viewer(ctx)
	if err != nil {
		return err
	}
	var s explain.LookupSearch
	if err := decodeSearch(ctx, "a search", &s); err != nil {
		return err
	}
	found, err := r.Lookup.Search(context.Background(), who, &s)
	if err != nil {
		return err
	}
	a := explain.NewLookup(&found.Result)
	a.Cache, a.Knowledge = found.Cache, make([]explain.Searched, 0, len(found.Bases))
	for _, ref := range found.Bases {
		a.Knowledge = append(a.Knowledge, explain.Searched{ID: ref.Knowledge, Generation: ref.Generation})
	}
	if s.Explain {
		found.Explain(&a)
	}
	return writeJSON(ctx, fasthttp.StatusOK, a)
}

// read returns chunks of a document, with tokens counted for ?model=.
func (r request) read(ctx *fasthttp.RequestCtx) error {
	who, err := r.viewer(ctx)
	if err != nil {
		return err
	}
	var passage explain.ReadPassage
	if err := decodeSearch(ctx, "a reading", &passage); err != nil {
		return err
	}
	reading, err := r.Lookup.Read(context.Background(), who, r.Rewriter.Models.Model(string(ctx.QueryArgs().Peek("model"))), &passage)
	if err != nil {
		return err
	}
	return writeJSON(ctx, fasthttp.StatusOK, reading)
}

// viewer returns the viewer for ?tenant=. Without a tenant it may see everything that the caller
// may. A caller that may not inspect cannot ask as a tenant, with that tenant's settings and at its
// cost.
func (r request) viewer(ctx *fasthttp.RequestCtx) (explain.Viewer, error) {
	var as *string
	if ctx.QueryArgs().Has("tenant") {
		if r.by.Scope != "" && !r.by.MayInspect() {
			err := insufficient(&r.by)
			r.refusedToken(ctx, err)
			return explain.Viewer{}, err
		}
		name := string(ctx.QueryArgs().Peek("tenant"))
		as = &name
	}
	who, err := r.Lookup.Viewer(as)
	who.Bases = r.by.visible(who.Bases)
	return who, err
}

// decodeSearch decodes the body of a search or read request. Unknown fields are refused: one of
// them could be a filter.
func decodeSearch(ctx *fasthttp.RequestCtx, what string, to any) error {
	b, err := body(ctx)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return &tenant.APIError{Reason: rewrite.ReasonNotJSON, Message: "The body is not " + what + ": " + jsonProblem(err) + "."}
	}
	if _, err := d.Token(); err != io.EOF {
		return &tenant.APIError{Reason: rewrite.ReasonNotJSON, Message: "The body has data after the JSON object."}
	}
	return nil
}
