package admin

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/retrieval"
)

// A Library is what the vector-store endpoints know of knowledge bases.
type Library interface {
	// Store tells what a base holds at this moment; false where there is none.
	Store(id string) (Store, bool)
	// Candidates asks the one base in q.Bases, which holds just its id, and returns
	// what its engine finds: no threshold is applied, the floor is told.
	Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error)
}

// A Store is a knowledge base at one moment. It does not change.
type Store struct {
	Generation string // "" while it is still indexing
	Created    time.Time
	Changed    time.Time // when it came to hold what it holds; zero before that
	Files      int
	Bytes      int64 // of their texts
	// File returns the i-th document by id, 0 <= i < Files; nil where the base does
	// not tell its documents.
	File func(i int) File
}

// A File is a document of a Store.
type File struct {
	ID, Name   string
	Chunks     int
	Bytes      int64          // of its text
	Attributes map[string]any // what filters choose by; nobody changes it
}

// Attributes that only Sidenote gives: a Sidenote that searches another one makes
// the very sources of it that the other has.
const (
	attrName       = "sidenote_name"       // title of the document
	attrSection    = "sidenote_section"    // heading path below it
	attrChunk      = "sidenote_chunk"      // ordinal of the chunk in its document
	attrChunks     = "sidenote_chunks"     // of a file: how many there are
	attrGeneration = "sidenote_generation" // that was searched; of a store, in its metadata: the present one
	attrFloor      = "sidenote_floor"      // score whose relevance is 0.5
)

// storesPath is where the endpoints in the shape of OpenAI's vector stores begin.
// A base is a store of the same id, a document of it a file of the same id.
const storesPath = "/v1/vector_stores"

// storeEndpoint returns the endpoint at a path as it was sent. An id is one
// segment, escaped; slashes of a file's id may stand as they are.
func (h *Handler) storeEndpoint(path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, storesPath)
	if !ok || rest != "" && rest[0] != '/' {
		return endpoint{}, false
	}
	var at []string
	for s := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		s, err := url.PathUnescape(s)
		if err != nil {
			return endpoint{}, false
		}
		at = append(at, s)
	}
	get := func(handle func(*fasthttp.RequestCtx) error) (endpoint, bool) {
		return endpoint{method: "GET", handle: handle}, true
	}
	of := func(handle func(*fasthttp.RequestCtx, string, Store) error) func(*fasthttp.RequestCtx) error {
		return func(ctx *fasthttp.RequestCtx) error { return h.withStore(ctx, at[0], handle) }
	}
	switch {
	case len(at) == 1 && at[0] == "":
		return get(h.listStores)
	case len(at) == 1:
		return get(of(showStore))
	case len(at) == 2 && at[1] == "search":
		return endpoint{method: "POST", handle: of(h.searchStore)}, true
	case len(at) == 2 && at[1] == "files":
		return get(of(listFiles))
	case at[1] == "files":
		return get(of(func(ctx *fasthttp.RequestCtx, id string, s Store) error {
			return showFile(ctx, id, s, strings.Join(at[2:], "/"))
		}))
	}
	return endpoint{}, false
}

// withStore calls handle with what of a base the request may see.
func (h *Handler) withStore(ctx *fasthttp.RequestCtx, id string, handle func(*fasthttp.RequestCtx, string, Store) error) error {
	who, err := h.asking(ctx)
	if err != nil {
		return err
	}
	s, ok := h.Library.Store(id)
	if !ok || !slices.Contains(who.bases, id) {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("No vector store found with id %q; there are %s.", id, strings.Join(who.bases, ", ")))
		return nil
	}
	return handle(ctx, id, s.seen(who.filter))
}

// An asker is who asks and what they may see.
type asker struct {
	tenant string
	bases  []string
	filter *retrieval.Filter // of the documents; nil is all of them
}

// asking returns who asks, by ?tenant=: without a tenant, somebody who may see all.
func (h *Handler) asking(ctx *fasthttp.RequestCtx) (asker, error) {
	if !ctx.QueryArgs().Has("tenant") {
		return asker{bases: h.Knowledge()}, nil
	}
	p, err := h.tenant(ctx)
	if err != nil {
		return asker{}, err
	}
	return asker{p.Tenant, p.Rewrite.Knowledge, p.Rewrite.Filter}, nil
}

// seen is the store as somebody sees it who may see what f chooses. Of a base that
// does not tell its documents only their number and size are left to be seen.
func (s Store) seen(f *retrieval.Filter) Store {
	if f == nil || s.File == nil {
		return s
	}
	all, n := s.File, s.Files
	var chosen []int
	s.Bytes = 0
	for i := range n {
		if file := all(i); f.Match(file.Attributes) {
			chosen = append(chosen, i)
			s.Bytes += file.Bytes
		}
	}
	s.Files, s.File = len(chosen), func(i int) File { return all(chosen[i]) }
	return s
}

// find returns a document by its id.
func (s Store) find(id string) (File, bool) {
	if s.File == nil {
		return File{}, false
	}
	at, ok := sort.Find(s.Files, func(i int) int { return strings.Compare(id, s.File(i).ID) })
	if !ok {
		return File{}, false
	}
	return s.File(at), true
}

// attributesOf are what interfaces show of a document: its own attributes and ours,
// of which nobody can have one of their own.
func attributesOf(f File, ours map[string]any) map[string]any {
	all := maps.Clone(f.Attributes)
	if all == nil {
		return ours
	}
	maps.Copy(all, ours)
	return all
}

// storeObject is a base as OpenAI shows a vector store.
type storeObject struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"` // "vector_store"
	CreatedAt    int64             `json:"created_at"`
	Name         string            `json:"name"`
	UsageBytes   int64             `json:"usage_bytes"`
	FileCounts   fileCounts        `json:"file_counts"`
	Status       string            `json:"status"` // "completed", or "in_progress" while it is still indexing
	ExpiresAfter *struct{}         `json:"expires_after"`
	ExpiresAt    *int64            `json:"expires_at"`
	LastActiveAt int64             `json:"last_active_at"` // when its content changed
	Metadata     map[string]string `json:"metadata"`
}

type fileCounts struct {
	InProgress int `json:"in_progress"`
	Completed  int `json:"completed"`
	Failed     int `json:"failed"`
	Cancelled  int `json:"cancelled"`
	Total      int `json:"total"`
}

func storeOf(id string, s Store) storeObject {
	o := storeObject{
		ID: id, Object: "vector_store", Name: id, CreatedAt: s.Created.Unix(), LastActiveAt: s.Created.Unix(), UsageBytes: s.Bytes,
		FileCounts: fileCounts{Completed: s.Files, Total: s.Files}, Status: "in_progress", Metadata: map[string]string{},
	}
	if !s.Changed.IsZero() {
		o.LastActiveAt = s.Changed.Unix()
	}
	if s.Generation != "" {
		o.Status, o.Metadata[attrGeneration] = "completed", s.Generation
	}
	return o
}

func showStore(ctx *fasthttp.RequestCtx, id string, s Store) error {
	return answer(ctx, fasthttp.StatusOK, storeOf(id, s))
}
