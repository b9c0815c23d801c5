package inspector

import (
	"fmt"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
	"sidenote/proxy/explain"
)

// A requestView is the data of request.html.
type requestView struct {
	*explain.Explanation
	Budget, Window *bar // nil if there is nothing to show
	Sources, Given []sourceView
	LeftOut        int // sources that did not fit
	Steps          []step
	Body           []stretch // before and after, or before alone
	Changed        bool      // Body has both
	Said           []piece   // text of the answer
	Unsaid         int       // bytes of it that did not fit
	Called         []explain.ToolCall
	Uncalled       int // calls that did not fit
	Asked          []stageView
	Resolved       *requestPolicy
	JSON           string // URL of the explanation as JSON

	given map[int]bool // ids of sources, and whether a row shows them
}

// Limits of the parts that a request can make long, in bytes of the page, which has 200 KB.
const (
	roomOfTexts    = 128 << 10 // for all together
	roomOfSources  = 56 << 10
	roomOfCalls    = 16 << 10
	roomOfSettings = 16 << 10
	roomOfAnswer   = 20 << 10
	roomOfBody     = 64 << 10
)

// A stageView shows the input and output of a stage.
type stageView struct {
	Name            string
	Request, Output []stretch
}

func (i *Inspector) request(v *visit) (any, error) {
	e, err := i.explained(v)
	if err != nil {
		return nil, err
	}
	view := &requestView{Explanation: e, Steps: stepsOf(e), JSON: requestsPath + "/" + e.ID + "/json"}
	r := room(roomOfTexts)
	r.part(roomOfSources, view.addSources)
	r.part(roomOfCalls, view.addCalls)
	r.part(roomOfSettings, func(r *room) { view.Resolved = requestPolicyOf(&i.data, e, r) })
	r.part(roomOfAnswer, view.addAnswer)
	r.part(roomOfBody, view.addBody)
	view.addStages(&r)
	return view, nil
}

// addAnswer adds what is kept of the answer.
func (view *requestView) addAnswer(r *room) {
	if a := view.Answer; a != nil {
		view.Said, view.Unsaid = piecesOf(a, view.given, ownOf(view.Received), r)
	}
}

// addBody adds what is kept of the request body, before and after the rewrite.
func (view *requestView) addBody(r *room) {
	before, after := view.Received, view.Sent
	if view.Changed = before != nil && after != nil; view.Changed {
		view.Body = r.compare(before, after, view.JSON)
	} else {
		view.Body = r.text(before, view.JSON)
	}
}

// callMarkup is the maximum size of the HTML of a tool call in bytes, without its texts.
const callMarkup = 450

// addCalls adds the tool calls that fit.
func (view *requestView) addCalls(r *room) {
	if view.Tools == nil {
		return
	}
	for i, c := range view.Tools.Calls {
		if !r.take(callMarkup + pageSize(cut(c.Tool, "").Text) + pageSize(cut(c.Arguments, "").Text)) {
			view.Uncalled = len(view.Tools.Calls) - i
			return
		}
		view.Called = append(view.Called, c)
	}
}

// addStages adds what is kept of the stages.
func (view *requestView) addStages(r *room) {
	if view.Stages == nil {
		return
	}
	for i := range view.Stages.Called {
		s := &view.Stages.Called[i]
		if s.Request != nil || s.Output != nil {
			view.Asked = append(view.Asked, stageView{s.Name, r.text(s.Request, view.JSON), r.text(s.Output, view.JSON)})
		}
	}
}

// explained returns the explanation of the request that the path names.
func (i *Inspector) explained(v *visit) (*explain.Explanation, error) {
	if i.data.Requests == nil {
		return nil, &problem{fasthttp.StatusNotFound, "No requests are recorded: explain.keep is 0."}
	}
	e, have, keep := i.data.Requests.Find(v.name)
	if e == nil {
		return nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("Request %s is not recorded, or not yet; of the last %d requests (explain.keep), %d are kept.", cut(v.name, "").Text, keep, have)}
	}
	if e.HasTexts() {
		i.record(v, audit.Event{Action: audit.Explain, Object: e.ID, Result: audit.OK})
	}
	return e, nil
}

// requestJSON answers with the explanation of a request.
func (i *Inspector) requestJSON(v *visit) error {
	e, err := i.explained(v)
	if err != nil {
		return err
	}
	return answerJSON(v, e)
}
