package admin

import (
	"context"
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// contentPath ends the path of a document's content.
const contentPath = "/content"

const (
	chunksOfPage = 1000    // maximum chunks of a page of content
	maxFirst     = 1 << 30 // index of a page's first chunk
)

// A contentPage is the text of a document in OpenAI's form, with a part for each chunk.
type contentPage struct {
	Object   string        `json:"object"` // "vector_store.file_content.page"
	Data     []contentPart `json:"data"`
	HasMore  bool          `json:"has_more"`
	NextPage *string       `json:"next_page"` // for ?page=
}

type contentPart struct {
	storeText
	Section string `json:"sidenote_section,omitempty"` // as in a search hit
}

// showContent returns the text of a document that the caller may see.
func showContent(ctx *fasthttp.RequestCtx, from retrieval.Reader, who explain.Viewer, store string, f explain.KnowledgeFile) error {
	first := 0
	if page := ctx.QueryArgs().Peek("page"); len(page) > 0 {
		var err error
		if first, err = strconv.Atoi(string(page)); err != nil || first < 0 || first > maxFirst {
			return optionError("page", "page is %q; it is next_page of the page before.", page)
		}
	}
	q := retrieval.Query{Tenant: who.Tenant, Filter: who.Filter, Bases: []retrieval.Ref{{Knowledge: store}}}
	list, err := from.Passage(context.Background(), q, retrieval.Passage{Knowledge: store, Doc: f.ID, First: first, End: first + chunksOfPage + 1})
	if err != nil && !errors.Is(err, retrieval.ErrNoHit) { // the document was deleted, or there is no such page
		return &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: "The file cannot be read.", Err: err}
	}
	out := contentPage{Object: "vector_store.file_content.page", Data: []contentPart{}}
	if out.HasMore = len(list) > chunksOfPage; out.HasMore {
		next := strconv.Itoa(first + chunksOfPage)
		list, out.NextPage = list[:chunksOfPage], &next
	}
	for _, src := range list {
		out.Data = append(out.Data, contentPart{storeText{"text", src.Text}, src.Section})
	}
	return writeJSON(ctx, fasthttp.StatusOK, out)
}
