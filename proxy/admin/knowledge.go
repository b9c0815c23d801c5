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

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A Manager manages knowledge bases. It returns a *Refusal if it refuses a request and for errors
// of the state folder. It is safe for concurrent use.
type Manager interface {
	Bases
	Documents
	// Ingest starts reading the folder of a base. It returns the number of the run that is sure to
	// see everything that is in the folder now; it is complete once that many runs have ended.
	// acceptDeletions allows deleting documents even if most files of the folder are gone.
	Ingest(ctx context.Context, base string, acceptDeletions bool) (run int, err error)
	// WebhookSecret returns the secret with which a forge signs its calls for a base; "" for none.
	WebhookSecret(base string) string
}

// Bases are the methods of a Manager for whole bases.
type Bases interface {
	// Bases returns all bases, sorted by id.
	Bases(ctx context.Context) ([]explain.Base, error)
	Base(ctx context.Context, id string) (explain.Base, error)
	// CreateBase creates an empty base; created is false if it exists already.
	CreateBase(ctx context.Context, id string) (created bool, err error)
	DeleteBase(ctx context.Context, id string) error
}

// Documents are the methods of a Manager for the documents of a base.
type Documents interface {
	// Documents returns the current documents of a base.
	Documents(ctx context.Context, base string) (Contents, error)
	// Document returns a document with its text.
	Document(ctx context.Context, base, id string) (Document, error)
	// Put writes documents, replacing those with the same ids, and returns the results in the same
	// order. When it returns, searches find the documents.
	Put(ctx context.Context, base string, documents []NewDocument) ([]Written, error)
	// PutFile reads a file and writes its documents: one with the name of the file as its id, or many
	// that are called NAME#KEY. Documents with such ids that the file does not hold are removed.
	PutFile(ctx context.Context, base string, file NewFile) (WrittenFile, error)
	// Remove removes a document.
	Remove(ctx context.Context, base, id string) error
	// Forget removes documents, if they are still there, and what is left of them and of other
	// documents that were removed.
	Forget(ctx context.Context, base string, ids []string) (Forgotten, error)
}

// A Refusal is an error with its own status and code.
type Refusal struct {
	Status  int
	Code    string
	Param   string // the field at fault; "" for none
	Message string // for people
	Err     error  // the cause; never sent
}

// Refuse returns a Refusal without Param and Err.
func Refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
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
	ctx.Response.SetBodyRaw(tenant.ErrorJSON(r.Message, kind, r.Code, r.Param))
	if r.Status == fasthttp.StatusServiceUnavailable {
		ctx.Response.Header.Set("Retry-After", "5")
	}
}

// knowledgePath is the path below which bases are managed.
const knowledgePath = "/v1/knowledge"

// A management serves the endpoints below knowledgePath.
type management struct {
	Manager
	by             *caller
	base, document string // ids in the path; "" if there is none
}

// manageWait limits the time of a request, which may wait for other changes of the same base, or
// for cutting a large text into chunks.
const manageWait = time.Minute

// endpoint returns the endpoint for a method and a path, which is not decoded. The id of a base is
// one path segment; slashes in a document's id may be escaped or not.
func (m management) endpoint(method, path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, knowledgePath)
	if !ok || rest != "" && rest[0] != '/' {
		return endpoint{}, false
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return byMethod(method, m.managed("GET", "", m.listBases), m.managed("POST", "", m.createBase)), true
	}
	base, rest, _ := strings.Cut(rest, "/")
	var err error
	if m.base, err = url.PathUnescape(base); err != nil {
		return endpoint{}, false
	}
	switch rest {
	case "":
		return byMethod(method, m.managed("GET", "/{base}", m.showBase), m.managed("DELETE", "/{base}", m.deleteBase)), true
	case "forget":
		return byMethod(method, m.managed("POST", "/{base}/forget", m.forgetDocuments)), true
	case "ingest":
		return byMethod(method, m.managed("POST", "/{base}/ingest", m.ingest)), true
	case "webhook":
		return byMethod(method, m.managed("POST", "/{base}/webhook", m.webhook)), true
	case "documents", "documents/":
		return byMethod(method, m.managed("GET", "/{base}/documents", m.listDocuments), orForm(m.managed("POST", "/{base}/documents", m.putDocuments))), true
	}
	document, ok := strings.CutPrefix(rest, "documents/")
	if m.document, err = url.PathUnescape(document); !ok || err != nil {
		return endpoint{}, false
	}
	const one = "/{base}/documents/{id}"
	return byMethod(method, m.managed("GET", one, m.showDocument), m.managed("PUT", one, m.putDocument), m.managed("DELETE", one, m.deleteDocument)), true
}

// byMethod returns the endpoint in list with the method. If there is none, it returns one without
// a handler, whose method is the list of allowed methods.
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

// managed returns the endpoint at a path below knowledgePath. It refuses ?tenant=, because
// management shows whole bases, while a tenant may see only the documents that match its filters. A
// base that the caller may not see is refused like one that does not exist.
func (m management) managed(method, path string, handle func(context.Context, *fasthttp.RequestCtx) error) endpoint {
	return endpoint{method: method, path: knowledgePath + path, handle: func(rc *fasthttp.RequestCtx) error {
		if rc.QueryArgs().Has("tenant") {
			return optionError("tenant", "Knowledge bases cannot be managed as a tenant; /v1/vector_stores shows what a tenant may see.")
		}
		if m.base != "" && !m.by.sees(m.base) {
			return NoBase(m.base)
		}
		ctx, cancel := context.WithTimeout(context.Background(), manageWait)
		defer cancel()
		return handle(ctx, rc)
	}}
}

// NoBase returns the refusal for a base that does not exist.
func NoBase(id string) *Refusal {
	return Refuse(fasthttp.StatusNotFound, "not_found", "There is no knowledge base %q.", id)
}

// forgetWait limits the time of forgetting, which writes the whole database.
const forgetWait = 10 * time.Minute

// orForm returns an endpoint that takes a form, too.
func orForm(e endpoint) endpoint {
	e.form = true
	return e
}

// readObject decodes a body that is a single JSON object. Unknown fields are refused: one of them
// could be a rule about who may read a document.
func readObject(rc *fasthttp.RequestCtx, what string, to any) error {
	b, err := body(rc)
	if err != nil {
		return err
	}
	refuse := func(detail string) error {
		return &tenant.APIError{Reason: rewrite.ReasonNotJSON, Message: fmt.Sprintf("The body is not %s: %s.", what, detail)}
	}
	if !utf8.Valid(b) {
		return refuse("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return refuse(jsonProblem(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse("something stands after it")
	}
	return nil
}

// optionError returns the error for one field or parameter.
func optionError(param, format string, args ...any) error {
	return &tenant.APIError{Reason: rewrite.ReasonOption, Param: param, Message: fmt.Sprintf(format, args...)}
}
