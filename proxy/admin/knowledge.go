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

// A Manager manages knowledge bases. It returns a *Refusal for what it refuses and for
// errors of the state folder. It is safe for concurrent use.
type Manager interface {
	Bases
	Documents
	// Ingest begins to read the folder of a base. It returns the number of the reading
	// that is sure to see everything that is in the folder now: it is done once that many
	// readings have ended. acceptDeletions deletes documents even if most files of the
	// folder are gone.
	Ingest(ctx context.Context, base string, acceptDeletions bool) (run int, err error)
}

// Bases are the methods of a Manager for whole bases.
type Bases interface {
	// Bases returns all bases, by id.
	Bases(ctx context.Context) ([]explain.Base, error)
	Base(ctx context.Context, id string) (explain.Base, error)
	// CreateBase makes an empty base; created is false if it was there already.
	CreateBase(ctx context.Context, id string) (created bool, err error)
	DeleteBase(ctx context.Context, id string) error
}

// Documents are the methods of a Manager for the documents of a base.
type Documents interface {
	// Documents returns the documents that a base has now.
	Documents(ctx context.Context, base string) (Contents, error)
	// Document returns a document with its text.
	Document(ctx context.Context, base, id string) (Document, error)
	// Put writes documents, in place of those with the same ids, and returns in the same
	// order what became of them. When it returns, searches find them.
	Put(ctx context.Context, base string, documents []NewDocument) ([]Written, error)
	// Remove removes a document.
	Remove(ctx context.Context, base, id string) error
}

// A Refusal is an error for which a Manager has chosen the answer itself.
type Refusal struct {
	Status  int
	Code    string
	Param   string // the field at fault, "" for none
	Message string // for people
	Err     error  // the cause; never sent
}

// Refuse returns a Refusal without a field at fault and without a cause.
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

// A management answers below knowledgePath with what a Manager does.
type management struct {
	Manager
	base, document string // their ids in the path; "" where it has none
}

// manageWait is the longest that one request may take. It waits for other changes of the
// same base, and cutting a large text into chunks takes time.
const manageWait = time.Minute

// endpoint returns the endpoint for a method and a path, which is not decoded.
// The id of a base is one segment of the path; slashes in a document's id may be escaped
// or not.
func (m management) endpoint(method, path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, knowledgePath)
	if !ok || rest != "" && rest[0] != '/' {
		return endpoint{}, false
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return byMethod(method, managed("GET", m.listBases), managed("POST", m.createBase)), true
	}
	base, rest, _ := strings.Cut(rest, "/")
	var err error
	if m.base, err = url.PathUnescape(base); err != nil {
		return endpoint{}, false
	}
	switch rest {
	case "":
		return byMethod(method, managed("GET", m.showBase), managed("DELETE", m.deleteBase)), true
	case "ingest":
		return byMethod(method, managed("POST", m.ingest)), true
	case "documents", "documents/":
		return byMethod(method, managed("GET", m.listDocuments), managed("POST", m.putDocuments)), true
	}
	document, ok := strings.CutPrefix(rest, "documents/")
	if m.document, err = url.PathUnescape(document); !ok || err != nil {
		return endpoint{}, false
	}
	return byMethod(method, managed("GET", m.showDocument), managed("PUT", m.putDocument), managed("DELETE", m.deleteDocument)), true
}

// byMethod returns the endpoint in list that takes the method. If there is none, it
// returns one without a handler, whose method is the list of those that list takes.
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

// managed returns the endpoint of a handler. It refuses requests as a tenant: managing shows
// whole bases, and a tenant may see only the documents that its filters choose.
func managed(method string, handle func(context.Context, *fasthttp.RequestCtx) error) endpoint {
	return endpoint{method: method, write: method != "GET", handle: func(rc *fasthttp.RequestCtx) error {
		if rc.QueryArgs().Has("tenant") {
			return optionError("tenant", "Bases are not managed as a tenant; ask /v1/vector_stores what a tenant sees.")
		}
		ctx, cancel := context.WithTimeout(context.Background(), manageWait)
		defer cancel()
		return handle(ctx, rc)
	}}
}

// readObject reads a body that is one JSON object into to. Unknown fields are refused: one
// of them could be a rule about who may read a document.
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
