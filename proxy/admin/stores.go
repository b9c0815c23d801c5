package admin

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/retrieval"
)

// A Library gives the vector-store endpoints access to knowledge bases.
type Library interface {
	explain.Stores
	// Candidates searches the bases in q.Bases, of which only the ids are set, as one base; all of
	// several must be joint. It returns everything that the engine finds, without a threshold, and
	// the floor. The turns of q.Previous have their weights.
	Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error)
}

// Attributes that only Sidenote adds. With them, a Sidenote that searches another one can restore
// the exact sources.
const (
	attrName       = "sidenote_name"       // title of the document
	attrSection    = "sidenote_section"    // heading path of the section
	attrChunk      = "sidenote_chunk"      // index of the chunk in its document
	attrChunks     = "sidenote_chunks"     // of a file: number of chunks
	attrGeneration = "sidenote_generation" // the generation that was searched; in a store's metadata, the current one
	attrFloor      = "sidenote_floor"      // minimum score of answers

	// Of results for another Sidenote, see jointSearch.
	attrKnowledge = "sidenote_knowledge" // id of the base
	attrScore     = "sidenote_score"     // score of the engine
	attrSketch    = "sidenote_sketch"    // retrieval.Source.Sketch in base64
	attrArm       = "sidenote_arm"       // of the base's own search, if it has several

	attrJoint = "sidenote_joint" // in a store's metadata: it takes a jointSearch
)

// storesPath begins the paths of the endpoints in the form of OpenAI's vector stores. A base is a
// store with the same id, a document a file with the same id.
const storesPath = "/v1/vector_stores"

// storeEndpoint returns the endpoint at a path, which is not decoded. An id is one escaped
// segment; slashes in a file's id need not be escaped.
func (r request) storeEndpoint(path string) (endpoint, bool) {
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
	get := func(below string, handle func(*fasthttp.RequestCtx) error) (endpoint, bool) {
		return endpoint{method: "GET", path: storesPath + below, handle: handle}, true
	}
	of := func(handle func(*fasthttp.RequestCtx, explain.Viewer, string, explain.Store) error) func(*fasthttp.RequestCtx) error {
		return func(ctx *fasthttp.RequestCtx) error { return r.withStore(ctx, at[0], handle) }
	}
	switch {
	case len(at) == 1 && at[0] == "":
		return get("", r.listStores)
	case len(at) == 1:
		return get("/{base}", of(showStore))
	case len(at) == 2 && at[1] == "search":
		return endpoint{method: "POST", path: storesPath + "/{base}/search", handle: func(ctx *fasthttp.RequestCtx) error { return r.searchStores(ctx, at[0]) }}, true
	case len(at) == 2 && at[1] == "files":
		return get("/{base}/files", of(listFiles))
	case at[1] == "files":
		return get("/{base}/files/{id}", of(func(ctx *fasthttp.RequestCtx, who explain.Viewer, id string, s explain.Store) error {
			name := strings.Join(at[2:], "/")
			if file, ok := s.Find(strings.TrimSuffix(name, contentPath)); ok && strings.HasSuffix(name, contentPath) && r.Tools != nil {
				return showContent(ctx, r.Tools.Reader, who, id, file)
			}
			return showFile(ctx, id, s, name)
		}))
	}
	return endpoint{}, false
}

// withStore calls handle with the viewer and the part of a base that it may see.
func (r request) withStore(ctx *fasthttp.RequestCtx, id string, handle func(*fasthttp.RequestCtx, explain.Viewer, string, explain.Store) error) error {
	who, err := r.viewer(ctx)
	if err != nil {
		return err
	}
	s, ok := r.storeFor(&who, id)
	if !ok {
		failStore(ctx, &who, id)
		return nil
	}
	return handle(ctx, who, id, s)
}

// storeFor returns the part of a base that a viewer may see; false if there is none.
func (r request) storeFor(who *explain.Viewer, id string) (explain.Store, bool) {
	s, ok := r.Library.Store(id)
	if !ok || !slices.Contains(who.Bases, id) {
		return explain.Store{}, false
	}
	return s.VisibleTo(who.Filter), true
}

// failStore answers that there is no such base.
func failStore(ctx *fasthttp.RequestCtx, who *explain.Viewer, id string) {
	fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("No vector store found with id %q; there are %s.", id, strings.Join(who.Bases, ", ")))
}

// attributesOf returns a document's own attributes and Sidenote's, whose names documents cannot
// use.
func attributesOf(f explain.KnowledgeFile, ours map[string]any) map[string]any {
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
	Status       string            `json:"status"` // "completed", or "in_progress" while it is being indexed
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

func storeOf(id string, s explain.Store) storeObject {
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
	if s.Joint {
		o.Metadata[attrJoint] = "1"
	}
	return o
}

func showStore(ctx *fasthttp.RequestCtx, _ explain.Viewer, id string, s explain.Store) error {
	return writeJSON(ctx, fasthttp.StatusOK, storeOf(id, s))
}
