package inspector

import (
	"fmt"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// A requestView is what request.html is made of.
type requestView struct {
	*explain.Explanation
	Budget, Window *bar // nil where there is nothing to show
	Sources, Given []sourceView
	LeftOut        int // sources for which there is no room
	Steps          []step
	Body           []stretch // before and after, or before alone
	Changed        bool      // Body has both
	Said           []piece   // by the answer
	Unsaid         int       // bytes of it for which there is no room
	Asked          []stageView
	Resolved       *requestPolicy
	JSON           string // the address of all that is known

	given map[int]bool // by the ids that sources have: whether a row shows them
}

// Room for what a request can make long, in bytes of the page, which has 200 KB.
const (
	roomOfSources = 60 << 10
	roomOfBody    = 64 << 10
	roomOfAnswer  = 20 << 10
	roomOfStages  = 24 << 10
)

// A stageView is what a stage was asked and said.
type stageView struct {
	Name            string
	Request, Output []stretch
}

func (i *Inspector) request(v *visit) (any, error) {
	e, err := i.explained(v)
	if err != nil {
		return nil, err
	}
	view := &requestView{Explanation: e, Steps: stepsOf(e), JSON: requestsPath + "/" + e.ID + "/json", Resolved: requestPolicyOf(&i.data, e)}
	view.addSources()
	view.addBodies()
	return view, nil
}

// addBodies adds what is kept of the bodies, the answer and the stages.
func (view *requestView) addBodies() {
	e, forBody, forAnswer, forStages := view.Explanation, room(roomOfBody), room(roomOfAnswer), room(roomOfStages)
	if view.Changed = e.Received != nil && e.Sent != nil; view.Changed {
		view.Body = forBody.compare(e.Received, e.Sent, view.JSON)
	} else {
		view.Body = forBody.text(e.Received, view.JSON)
	}
	if e.Answer != nil {
		view.Said, view.Unsaid = piecesOf(e.Answer, view.given, &forAnswer)
	}
	if e.Stages == nil {
		return
	}
	for n := range e.Stages.Called {
		s := &e.Stages.Called[n]
		if s.Request != nil || s.Output != nil {
			view.Asked = append(view.Asked, stageView{s.Name, forStages.text(s.Request, view.JSON), forStages.text(s.Output, view.JSON)})
		}
	}
}

// explained returns what is known of the request that the path names.
func (i *Inspector) explained(v *visit) (*explain.Explanation, error) {
	if i.data.Requests == nil {
		return nil, &problem{fasthttp.StatusNotFound, "Nothing is known of any request: explain.keep is 0, so that none are kept."}
	}
	e, have, keep := i.data.Requests.Find(v.name)
	if e == nil {
		return nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("Nothing is known of the request %s, or not yet; of the last %d requests (explain.keep), %d are known.", cut(v.name, "").Text, keep, have)}
	}
	return e, nil
}

// requestJSON answers with all that is known of a request.
func (i *Inspector) requestJSON(v *visit) error {
	e, err := i.explained(v)
	if err != nil {
		return err
	}
	return answerJSON(v, e)
}
