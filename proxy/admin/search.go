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
func (h *Handler) search(ctx *fasthttp.RequestCtx) error {
	who, err := h.viewer(ctx)
	if err != nil {
		return err
	}
	var s explain.LookupSearch
	if err := decodeSearch(ctx, "a search", &s); err != nil {
		return err
	}
	found, err := h.Lookup.Search(context.Background(), who, &s)
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
func (h *Handler) read(ctx *fasthttp.RequestCtx) error {
	who, err := h.viewer(ctx)
	if err != nil {
		return err
	}
	var r explain.ReadPassage
	if err := decodeSearch(ctx, "a reading", &r); err != nil {
		return err
	}
	reading, err := h.Lookup.Read(context.Background(), who, h.Rewriter.Models.Model(string(ctx.QueryArgs().Peek("model"))), &r)
	if err != nil {
		return err
	}
	return writeJSON(ctx, fasthttp.StatusOK, reading)
}

// viewer returns the viewer for ?tenant=. Without a tenant it may see everything.
func (h *Handler) viewer(ctx *fasthttp.RequestCtx) (explain.Viewer, error) {
	if !ctx.QueryArgs().Has("tenant") {
		return h.Lookup.Viewer(nil)
	}
	tenant := string(ctx.QueryArgs().Peek("tenant"))
	return h.Lookup.Viewer(&tenant)
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
