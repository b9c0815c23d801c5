package admin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/valyala/fasthttp"
)

// context builds messages from the chunks, components and sources in the body, for the tenant of
// ?tenant=. It does no search.
func (h *Handler) context(ctx *fasthttp.RequestCtx) error {
	tenant, err := h.tenant(ctx)
	if err != nil {
		return err
	}
	state, err := body(ctx)
	if err != nil {
		return err
	}
	built, err := h.Assembler.Build(context.Background(), tenant.Rewrite, state, "")
	if err != nil {
		return err
	}
	ctx.Response.Header.SetContentType("application/json")
	out := json.NewEncoder(ctx)
	out.SetEscapeHTML(false) // the messages are full of tags
	if err := out.Encode(built); err != nil {
		return fmt.Errorf("encode messages: %w", err)
	}
	return nil
}
