package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/rewrite"
)

// A Keeper manages knowledge bases. What it refuses, and what goes wrong with the
// state folder, is a *Refusal. It is safe for concurrent use.
type Keeper interface {
	Bases
	Documents
	// Ingest begins to read the folder that a base is kept with, and returns the
	// number of the reading that has everything that is in the folder now: it is done
	// once that many have ended. acceptDeletions lets documents go where most files of
	// the folder are gone.
	Ingest(ctx context.Context, base string, acceptDeletions bool) (run int, err error)
}

// Bases are the knowledge bases of a Keeper.
type Bases interface {
	// Bases returns all bases, by id.
	Bases(ctx context.Context) ([]Base, error)
	Base(ctx context.Context, id string) (Base, error)
	// CreateBase makes an empty base; created is false where it was there already.
	CreateBase(ctx context.Context, id string) (created bool, err error)
	DeleteBase(ctx context.Context, id string) error
}

// Documents are the documents of the bases of a Keeper.
type Documents interface {
	// Documents tells the documents that a base has at this moment.
	Documents(ctx context.Context, base string) (Contents, error)
	// Document returns a document with its text.
	Document(ctx context.Context, base, id string) (Document, error)
	// Put writes documents, in place of those with the same ids, and tells in their
	// order what became of them. The base answers from them when it returns.
	Put(ctx context.Context, base string, documents []NewDocument) ([]Written, error)
	// Remove removes a document.
	Remove(ctx context.Context, base, id string) error
}

// A Refusal is an answer that a Keeper has chosen itself.
type Refusal struct {
	Status  int
	Code    string
	Param   string // the field at fault, "" for none
	Message string // for people
	Err     error  // the cause; never sent
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func (r *Refusal) write(ctx *fasthttp.RequestCtx) {
	kind := "invalid_request_error"
	if r.Status >= fasthttp.StatusInternalServerError {
		kind = "server_error"
	}
	fail(ctx, r.Status, r.Code, "")
	ctx.Response.SetBodyRaw(proxy.ErrorJSON(r.Message, kind, r.Code, r.Param))
	if r.Status == fasthttp.StatusServiceUnavailable {
		ctx.Response.Header.Set("Retry-After", "5")
	}
}

// knowledgePath is where bases are managed.
const knowledgePath = "/v1/knowledge"

// manageWait bounds one request. It waits its turn behind whatever changes the same
// base, and what it was asked to write may be a large text to cut.
const manageWait = time.Minute

// knowledgeEndpoint returns what answers a method at a path as it was sent. A base is
// one segment of it; slashes of a document's id may be escaped or stand as they are.
func (h *Handler) knowledgeEndpoint(method, path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, knowledgePath)
	if !ok || rest != "" && rest[0] != '/' {
		return endpoint{}, false
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return byMethod(method, endpoint{method: "GET", handle: h.listBases}, endpoint{method: "POST", write: true, handle: h.createBase}), true
	}
	id, rest, deeper := strings.Cut(rest, "/")
	id, err := url.PathUnescape(id)
	if err != nil {
		return endpoint{}, false
	}
	of := func(method string, handle func(context.Context, *fasthttp.RequestCtx, string) error) endpoint {
		return endpoint{method: method, write: method != "GET", handle: func(ctx *fasthttp.RequestCtx) error { return h.withBase(ctx, id, handle) }}
	}
	switch {
	case !deeper || rest == "":
		return byMethod(method, of("GET", h.showBase), of("DELETE", h.deleteBase)), true
	case rest == "ingest":
		return byMethod(method, of("POST", h.ingest)), true
	case rest == "documents" || rest == "documents/":
		return byMethod(method, of("GET", h.listDocuments), of("POST", h.putDocuments)), true
	}
	name, ok := strings.CutPrefix(rest, "documents/")
	document, err := url.PathUnescape(name)
	if !ok || err != nil {
		return endpoint{}, false
	}
	one := func(method string, handle func(ctx context.Context, rc *fasthttp.RequestCtx, base, id string) error) endpoint {
		return of(method, func(ctx context.Context, rc *fasthttp.RequestCtx, base string) error {
			return handle(ctx, rc, base, document)
		})
	}
	return byMethod(method, one("GET", h.showDocument), one("PUT", h.putDocument), one("DELETE", h.deleteDocument)), true
}

// byMethod chooses among the endpoints of one path. Where none takes the method, the
// one that is returned takes none, and names those that there are.
func byMethod(method string, list ...endpoint) endpoint {
	var names []string
	for _, e := range list {
		if method == e.method || method == "HEAD" && e.method == "GET" {
			return e
		}
		names = append(names, e.method)
	}
	return endpoint{method: strings.Join(names, ", ")}
}

// withBase calls handle with the id of a base.
func (h *Handler) withBase(rc *fasthttp.RequestCtx, id string, handle func(context.Context, *fasthttp.RequestCtx, string) error) error {
	if err := untenanted(rc); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), manageWait)
	defer cancel()
	return handle(ctx, rc, id)
}

// untenanted refuses requests as a tenant: what is managed is whole, and a tenant may
// see only what its filters choose.
func untenanted(rc *fasthttp.RequestCtx) error {
	if rc.QueryArgs().Has("tenant") {
		return option("tenant", "Bases are not managed as a tenant; ask /v1/vector_stores what a tenant sees.")
	}
	return nil
}

// readObject reads a body that is one JSON object into to. Fields that it does not
// know are refused: one of them could be a rule about who may read a document.
func readObject(rc *fasthttp.RequestCtx, what string, to any) error {
	b, err := body(rc)
	if err != nil {
		return err
	}
	refuse := func(detail string) error {
		return &proxy.Error{Reason: rewrite.ReasonNotJSON, Message: fmt.Sprintf("The body is not %s: %s.", what, detail)}
	}
	if !utf8.Valid(b) {
		return refuse("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return refuse(whyNot(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse("something stands after it")
	}
	return nil
}

// option is a refusal of one field.
func option(param, format string, args ...any) error {
	return &proxy.Error{Reason: rewrite.ReasonOption, Param: param, Message: fmt.Sprintf(format, args...)}
}
