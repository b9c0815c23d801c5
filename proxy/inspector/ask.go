package inspector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

const (
	askPath    = requestsPath + "/{id}/ask"
	askFile    = "ask.html"
	maxAskForm = 1 << 20
	askWait    = 30 * time.Second // timeout for the dry run
	maxAsked   = 10_000_000       // largest context_tokens that may be entered
)

// An askView is the data of ask.html.
type askView struct {
	*explain.Explanation
	JSON     string // URL of the request's explanation as JSON
	Address  string // URL of the form
	Policies []string
	Own      string // the current policy of the tenant
	Modes    []string
	Form     askForm
	Kept     AskedBody // used if no text is entered
	Wrong    string    // why no dry run was made
	Compared *comparison
}

// An askForm holds the fields of the form. "" means as in the policy or the request.
type askForm struct {
	Policy, Mode, ContextTokens, Knowledge string
	Text                                   string // a question, or a request body
	Helpers                                bool   // run planner, reranker and grader, which cost money
}

// askPage shows the form for asking a request again.
func askPage(i *Inspector, v *visit) (any, error) {
	view, err := askViewOf(i, v)
	if err != nil {
		return nil, err
	}
	view.Form = prefilled(view, requestPolicyOf(&i.data, view.Explanation, new(room)))
	return view, nil
}

func askViewOf(i *Inspector, v *visit) (*askView, error) {
	e, err := i.explained(v)
	switch {
	case err != nil:
		return nil, err
	case i.data.DryRun == nil || i.data.Policies == nil:
		return nil, &problem{fasthttp.StatusNotFound, "Requests cannot be asked again here."}
	case e.Tenant == "":
		return nil, &problem{fasthttp.StatusNotFound, "The caller of this request was refused, so it has no policy to repeat it with."}
	}
	own, _ := i.data.Policies.Resolve(e.Tenant, "")
	if own == nil {
		return nil, &problem{fasthttp.StatusNotFound, "There is no tenant of this request any more."}
	}
	view := &askView{Explanation: e, JSON: requestsPath + "/" + e.ID + "/json", Address: askAddress(e.ID), Policies: i.data.Policies.Names(), Own: own.Name, Kept: AskAgain(e, i.data.Requests.HasQuestions())}
	for m := rewrite.Off; m <= rewrite.Staged; m++ {
		view.Modes = append(view.Modes, m.String())
	}
	return view, nil
}

// prefilled returns the form with the settings of the request, as far as they are known.
func prefilled(view *askView, had *requestPolicy) (f askForm) {
	if view.Explanation.Policy != view.Own {
		f.Policy = view.Explanation.Policy
	}
	if had == nil {
		return f
	}
	for _, d := range had.Narrowed {
		switch d.Key {
		case "mode":
			f.Mode = d.After
		case "context_tokens":
			f.ContextTokens = d.After
		case "knowledge":
			f.Knowledge = d.After
		}
	}
	return f
}

// askAgain makes a dry run of a request, and shows it beside the original.
func askAgain(i *Inspector, v *visit) error {
	form, err := readForm(v, maxAskForm)
	if err != nil {
		return err
	}
	view, err := askViewOf(i, v)
	if err != nil {
		return err
	}
	text := func(name string) string { return strings.TrimSpace(string(form.Peek(name))) }
	view.Form = askForm{text("policy"), text("mode"), text("context_tokens"), text("knowledge"), text("text"), text("helpers") != ""}
	if view.Compared, err = compare(&i.data, view); err != nil {
		view.Wrong = reasonOf(err)
		v.Response.SetStatusCode(fasthttp.StatusBadRequest)
	}
	return i.show(v, page{path: askPath, title: "Ask again", file: askFile}, view)
}

// reasonOf describes for people why no dry run was made.
func reasonOf(err error) string {
	var wrong *problem
	if errors.As(err, &wrong) {
		return wrong.message
	}
	return tenant.AsError(err).Message
}

// wrong returns the error for a field of the form.
func wrong(format string, args ...any) error {
	return &problem{fasthttp.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// compare makes the dry run, and compares it with the original request.
func compare(d *Data, view *askView) (*comparison, error) {
	p, _ := d.Policies.Resolve(view.Tenant, view.Form.Policy)
	if p == nil {
		return nil, wrong("There is no policy %s.", cut(view.Form.Policy, "").Text)
	}
	r := explain.DryRunRequest{Policy: p, SkipHelpers: !view.Form.Helpers}
	var err error
	if r.Body, err = view.body(); err != nil {
		return nil, err
	}
	if n := view.Form.ContextTokens; n != "" {
		if r.ContextTokens, err = strconv.Atoi(n); err != nil || r.ContextTokens < 1 || r.ContextTokens > maxAsked {
			return nil, wrong("%s is no number of tokens from 1 to %d.", cut(n, "").Text, maxAsked)
		}
	}
	for _, option := range [...]struct{ header, value string }{{"sidenote-mode", view.Form.Mode}, {"sidenote-knowledge", view.Form.Knowledge}} {
		if _, set := tenant.OptionOfHeader(option.header); option.value != "" {
			if err := set(&r.Options, option.value); err != nil {
				return nil, wrong("%s: %s.", option.header, cut(err.Error(), "").Text)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	result, err := d.DryRun.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	return comparisonOf(view.Explanation, &result), nil
}

// body returns the body for the dry run: the text that was entered, or the kept body.
func (view *askView) body() ([]byte, error) {
	switch text := view.Form.Text; {
	case strings.HasPrefix(text, "{"):
		return []byte(text), nil
	case text != "":
		return AskedQuestion(view.Explanation, text), nil
	case view.Kept.JSON != nil:
		return view.Kept.JSON, nil
	}
	return nil, wrong("Type what to ask: of this request it is not kept.")
}
