package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// checkTargetModels refuses a request whose path names a model that its policy does not allow, or
// whose query could name a model.
func (q *request) checkTargetModels() error {
	if err := q.checkQuery(); err != nil {
		return err
	}
	return q.policy.Models.Allow(q.target.PathModels()...)
}

// checkQuery refuses a query that could name a model, since some gateways prefer that to the
// body's.
func (q *request) checkQuery() error {
	_, query, _ := bytes.Cut(q.ctx.Request.Header.RequestURI(), []byte("?"))
	if text, err := url.QueryUnescape(string(query)); err != nil || strings.Contains(strings.ToLower(text), "model") {
		return &tenant.APIError{Reason: report.ReasonPath, Message: "The query string must not name a model; name it in the body only."}
	}
	return nil
}

// checkModels refuses a request unless its policy allows all models that it names. If the policy
// lists models the request must name one, as otherwise the upstream would choose. body must be
// complete and decompressed.
func (q *request) checkModels(body []byte) error {
	if q.policy.Models == nil {
		return nil
	}
	names, err := bodyModels(&q.ctx.Request.Header, body)
	if err != nil {
		return err
	}
	if len(names) == 0 && len(q.target.PathModels()) == 0 {
		return &tenant.APIError{Reason: report.ReasonModel, Message: "The request names no model, but your key is limited to certain models; set the field model."}
	}
	return q.policy.Models.Allow(names...)
}

// bodyModels returns the models that a body names. It refuses bodies that servers could read
// differently.
func bodyModels(h *fasthttp.RequestHeader, body []byte) ([]string, error) {
	kind, boundary, err := formType(h)
	switch {
	case err != nil:
		return nil, err
	case kind == Form:
		return formModels(body, boundary)
	}
	return chat.Models(body)
}

// checkRelayedModels is checkModels for a request that Sidenote does not rewrite. It reads the
// body and puts it into the call unchanged.
func (x *exchange) checkRelayedModels(call *transport.Call) error {
	if string(x.ctx.Method()) != fasthttp.MethodPost {
		return nil
	}
	body, _, err := x.readBody()
	if err != nil {
		return err
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	if x.compressed != nil {
		body = x.compressed
	}
	call.Body, call.Whole, call.Same, call.NoUpgrade = [][]byte{body}, true, true, true
	return nil
}

// The media types in which a body can name a model.
const (
	formJSON = "application/json"
	Form     = "multipart/form-data"
)

// formType returns the media type of a body, formJSON or Form, and the boundary of a form. Any
// other type, a repeated header and unexpected parameters are refused by a *rewrite.BodyError,
// because a server may then read the body in another way.
func formType(h *fasthttp.RequestHeader) (kind, boundary string, err error) {
	all := h.PeekAll(fasthttp.HeaderContentType)
	if len(all) == 0 || len(all) == 1 && len(all[0]) == 0 {
		return formJSON, "", nil
	}
	kind, params, err := mime.ParseMediaType(string(all[0]))
	charset := params["charset"]
	delete(params, "charset")
	switch {
	case err != nil || len(all) > 1:
	case kind == formJSON && len(params) == 0 && (charset == "" || strings.EqualFold(charset, "utf-8")):
		return kind, "", nil
	case kind == Form && len(params) == 1 && params["boundary"] != "" && charset == "":
		return kind, params["boundary"], nil
	}
	return "", "", &chat.Error{
		Reason: rewrite.ReasonNotJSON, Param: fasthttp.HeaderContentType,
		Message: fmt.Sprintf("The model cannot be read from a body of Content-Type %q; send %s, or a form as %s.",
			bytes.Join(all, []byte(", ")), formJSON, Form),
	}
}

// maxModelNameForm is the longest model that a form may name, in bytes.
const maxModelNameForm = 512

// formModels returns the model in a form's field "model", if there is one. It refuses forms that
// other parsers could read differently.
func formModels(body []byte, boundary string) (names []string, err error) {
	delimiter := []byte("--" + boundary)
	if !bytes.HasPrefix(body, append(bytes.Clone(delimiter), "\r\n"...)) {
		return nil, badForm("it does not begin with its boundary and a line break")
	}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 1; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			if bytes.Count(body, delimiter) != n { // the n-1 parts, and the end
				return nil, badForm("its boundary stands within a part")
			}
			return names, nil
		}
		if err != nil {
			return nil, badForm("it is broken")
		}
		field, err := fieldName(part)
		if err != nil {
			return nil, err
		}
		if !strings.EqualFold(field, "model") {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxModelNameForm+1))
		if err != nil || len(value) > maxModelNameForm || field != "model" || len(names) > 0 || part.FileName() != "" {
			return nil, badForm("the field model is too long, a file, misspelled or repeated")
		}
		names = append(names, string(value))
	}
}

// fieldName returns the name of a form's field. It refuses a header in which other parsers could
// find another name.
func fieldName(part *multipart.Part) (string, error) {
	line := part.Header["Content-Disposition"]
	if len(line) != 1 || part.Header.Get("Content-Transfer-Encoding") != "" {
		return "", badForm("a part has no Content-Disposition, two of them, or an encoding")
	}
	kind, params, err := mime.ParseMediaType(line[0])
	written := `name="` + params["name"] + `"`
	if err != nil || kind != "form-data" || params["name"] == "" ||
		!strings.Contains(line[0], "; "+written) || strings.ContainsAny(line[0], "*\\") || strings.Count(line[0], ";") != len(params) {
		return "", badForm(fmt.Sprintf("%q is not read in the same way everywhere", line[0]))
	}
	return params["name"], nil
}

func badForm(what string) *chat.Error {
	return &chat.Error{Reason: rewrite.ReasonAmbiguous, Message: "The model cannot be read from the form: " + what + "."}
}
