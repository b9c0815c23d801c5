package admin

import (
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// The maximum and the default length of a list, as OpenAI's.
const (
	maxLimit     = 100
	defaultLimit = 20
)

// A fileObject is a document in the form of a file in OpenAI's vector stores.
type fileObject struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"` // "vector_store.file"
	UsageBytes       int64             `json:"usage_bytes"`
	CreatedAt        int64             `json:"created_at"`
	VectorStoreID    string            `json:"vector_store_id"`
	Status           string            `json:"status"` // "completed": a document is indexed completely or not at all
	LastError        *struct{}         `json:"last_error"`
	Attributes       map[string]any    `json:"attributes"`
	ChunkingStrategy map[string]string `json:"chunking_strategy"` // other: documents are cut along their own structure
}

func fileOf(store string, s explain.Store, f explain.KnowledgeFile) fileObject {
	return fileObject{
		ID: f.ID, Object: "vector_store.file", UsageBytes: f.Bytes, CreatedAt: s.Changed.Unix(), VectorStoreID: store,
		Status: "completed", Attributes: attributesOf(f, map[string]any{attrName: f.Name, attrChunks: f.Chunks}), ChunkingStrategy: map[string]string{"type": "other"},
	}
}

func showFile(ctx *fasthttp.RequestCtx, store string, s explain.Store, id string) error {
	if s.Unlisted() {
		return failUnlisted(ctx, store)
	}
	file, ok := s.Find(id)
	if !ok {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("No file found with id %q in vector store %q.", id, store))
		return nil
	}
	return writeJSON(ctx, fasthttp.StatusOK, fileOf(store, s, file))
}

func failUnlisted(ctx *fasthttp.RequestCtx, store string) error {
	fail(ctx, fasthttp.StatusNotImplemented, "not_listed", fmt.Sprintf("Vector store %q is on another server; list its files there.", store))
	return nil
}

// A List is a page of objects in OpenAI's form.
type List[T any] struct {
	Object  string  `json:"object"` // "list"
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// answerList answers with the requested page of n objects sorted by id.
func answerList[T any](ctx *fasthttp.RequestCtx, n int, id func(int) string, object func(int) T) error {
	p, err := readPage(ctx)
	if err != nil {
		return err
	}
	l := List[T]{Object: "list", Data: []T{}}
	var at []int
	at, l.HasMore = p.positions(n, id)
	for _, i := range at {
		l.Data = append(l.Data, object(i))
	}
	if len(at) > 0 {
		first, last := id(at[0]), id(at[len(at)-1])
		l.FirstID, l.LastID = &first, &last
	}
	return writeJSON(ctx, fasthttp.StatusOK, l)
}

// listStores lists the bases that the caller may see.
func (r request) listStores(ctx *fasthttp.RequestCtx) error {
	who, err := r.viewer(ctx)
	if err != nil {
		return err
	}
	var stores []storeObject
	for _, id := range slices.Compact(slices.Sorted(slices.Values(who.Bases))) {
		if s, ok := r.Library.Store(id); ok {
			stores = append(stores, storeOf(id, s.VisibleTo(who.Filter)))
		}
	}
	return answerList(ctx, len(stores), func(i int) string { return stores[i].ID }, func(i int) storeObject { return stores[i] })
}

// listFiles lists a base's documents. All of them are completed.
func listFiles(ctx *fasthttp.RequestCtx, _ explain.Viewer, store string, s explain.Store) error {
	if s.Unlisted() {
		return failUnlisted(ctx, store)
	}
	switch filter := string(ctx.QueryArgs().Peek("filter")); filter {
	case "", "completed":
	case "in_progress", "failed", "cancelled":
		s.Files = 0
	default:
		return optionError("filter", "filter is %q; it is one of in_progress, completed, failed, cancelled.", filter)
	}
	return answerList(ctx, s.Files, func(i int) string { return s.File(i).ID }, func(i int) fileObject { return fileOf(store, s, s.File(i)) })
}

// A page is the requested part of a list. All objects have the same creation time, so they are
// ordered by id.
type page struct {
	limit         int
	descending    bool
	after, before string // ids; "" for none; they need not exist
}

func readPage(ctx *fasthttp.RequestCtx) (page, error) {
	args := ctx.QueryArgs()
	p := page{limit: defaultLimit, descending: true, after: string(args.Peek("after")), before: string(args.Peek("before"))}
	if args.Has("limit") {
		text := string(args.Peek("limit"))
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			return page{}, optionError("limit", "limit is %q; it goes from 1 to %d.", text, maxLimit)
		}
		p.limit = n
	}
	switch order := string(args.Peek("order")); order {
	case "", "desc":
	case "asc":
		p.descending = false
	default:
		return page{}, optionError("order", "order is %q; it is asc or desc.", order)
	}
	return p, nil
}

// positions returns the indexes of the page's objects among n that are sorted by id, and whether
// more follow in the requested order.
func (p page) positions(n int, id func(int) string) (at []int, more bool) {
	low, high := p.after, p.before // the page is between these ids
	if p.descending {
		low, high = high, low
	}
	from, to := 0, n
	if low != "" {
		from = sort.Search(n, func(i int) bool { return id(i) > low })
	}
	if high != "" {
		to = max(from, sort.Search(n, func(i int) bool { return id(i) >= high }))
	}
	more = to-from > p.limit
	if onlyBefore := p.before != "" && p.after == ""; onlyBefore != p.descending {
		from = max(from, to-p.limit)
	}
	for i := from; i < min(to, from+p.limit); i++ {
		at = append(at, i)
	}
	if p.descending {
		slices.Reverse(at)
	}
	return at, more
}
