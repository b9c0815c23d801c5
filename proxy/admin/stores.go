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

	"sidenote/proxy/lookup"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// A Library is what the vector-store endpoints read knowledge bases from.
type Library interface {
	// Store returns what a base holds now; false if there is no such base.
	Store(id string) (Store, bool)
	// Candidates searches the one base in q.Bases, of which only the id is set. It
	// returns all that the engine finds, without a threshold, and the base's floor.
	Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error)
}

// A Store is the state of a knowledge base at one moment. It does not change.
type Store struct {
	Generation string // "" while it is still indexing
	Created    time.Time
	Changed    time.Time // when its content last changed; zero if it never did
	Files      int
	Bytes      int64 // of their texts
	// File returns the i-th document in the order of ids, 0 <= i < Files. It is nil if
	// the base cannot list its documents.
	File func(i int) File
}

// A File is a document of a Store.
type File struct {
	ID, Name   string
	Chunks     int
	Bytes      int64          // of its text
	Attributes map[string]any // what filters choose by; must not be changed
}

// Attributes that only Sidenote adds. From these, a Sidenote that searches another one
// makes exactly the sources that the other one has.
const (
	attrName       = "sidenote_name"       // title of the document
	attrSection    = "sidenote_section"    // heading path below it
	attrChunk      = "sidenote_chunk"      // ordinal of the chunk in its document
	attrChunks     = "sidenote_chunks"     // of a file: how many there are
	attrGeneration = "sidenote_generation" // the one that was searched; in a store's metadata the current one
	attrFloor      = "sidenote_floor"      // the score whose relevance is 0.5
)

// storesPath begins the paths of the endpoints in the shape of OpenAI's vector stores. A
// base is a store with the same id, a document a file with the same id.
const storesPath = "/v1/vector_stores"

// storeEndpoint returns the endpoint at a path, which is not decoded. An id is one escaped
// segment; slashes in a file's id need not be escaped.
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
	of := func(handle func(*fasthttp.RequestCtx, lookup.Viewer, string, Store) error) func(*fasthttp.RequestCtx) error {
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
		return get(of(func(ctx *fasthttp.RequestCtx, who lookup.Viewer, id string, s Store) error {
			name := strings.Join(at[2:], "/")
			if file, ok := s.find(strings.TrimSuffix(name, contentPath)); ok && strings.HasSuffix(name, contentPath) && h.Tools != nil {
				return showContent(ctx, h.Tools.Reader, who, id, file)
			}
			return showFile(ctx, id, s, name)
		}))
	}
	return endpoint{}, false
}

// withStore calls handle with the caller and the part of a base that it may see.
func (h *Handler) withStore(ctx *fasthttp.RequestCtx, id string, handle func(*fasthttp.RequestCtx, lookup.Viewer, string, Store) error) error {
	who, err := h.viewer(ctx)
	if err != nil {
		return err
	}
	s, ok := h.Library.Store(id)
	if !ok || !slices.Contains(who.Bases, id) {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("No vector store found with id %q; there are %s.", id, strings.Join(who.Bases, ", ")))
		return nil
	}
	return handle(ctx, who, id, s.visibleTo(who.Filter))
}

// visibleTo returns s as it is for a caller who may see the documents that f chooses. Of a
// base that cannot list its documents it shows their number and size.
func (s Store) visibleTo(f *filter.Filter) Store {
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

// attributesOf returns a document's own attributes together with Sidenote's, whose names
// documents cannot use.
func attributesOf(f File, ours map[string]any) map[string]any {
	all := maps.Clone(f.Attributes)
	if all == nil {
		return ours
	}
	maps.Copy(all, ours)
	return all
}

// A storeObject is a base in the form of OpenAI's vector stores.
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

func showStore(ctx *fasthttp.RequestCtx, _ lookup.Viewer, id string, s Store) error {
	return writeJSON(ctx, fasthttp.StatusOK, storeOf(id, s))
}
