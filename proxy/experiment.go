package proxy

import (
	"net/http"
	"strings"

	"sidenote/proxy/experiment"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// maxUser is the longest value of a header that names a user, in bytes.
const maxUser = 256

// joinExperiment gives a chat the policy of its arm, if its policy has an experiment. Background calls,
// and chats whose unit is not known, keep policy A and do not count. Chats for which the mode of either
// policy is lowered do not count, whatever their arm.
func (x *exchange) joinExperiment(req *chat.Request, asked *rewrite.Options) {
	e, store := x.policy.Experiment, x.server.experiments
	if e == nil || store == nil || e.Over(x.report.Time) {
		return
	}
	_, switched := e.B.Limited(x.server.modes, x.report.Time)
	counted := x.target.Route.Answers() && !req.OnlyWarms() && x.report.SwitchedFrom == "" && switched == ""
	for _, p := range []*tenant.Policy{x.policy, e.B} { // both, so that the arms count the same chats
		if p.Rewrite.Background(req, asked, x.headerValue) != "" { // never if the mode is off
			return
		}
		counted = counted && (asked.Mode == nil || *asked.Mode >= p.Rewrite.Mode)
	}
	unit, ok := x.unitOf(e.Settings, req)
	if !ok {
		return
	}
	of := report.Experiment{Name: e.Name, Arm: string(e.Assign(x.policy.Tenant, unit)), Unit: uint64(unit), Counted: counted}
	if of.Arm == string(experiment.B) {
		x.recordAs = x.policy.Name
		x.usePolicy(e.B)
	}
	if x.report.Experiment = of; of.Counted {
		store.Begin(x.report.ID, x.policy.Tenant, of)
	}
}

// unitOf returns the unit of a chat; ok is false if it is not known.
func (x *exchange) unitOf(of experiment.Settings, req *chat.Request) (unit experiment.Key, ok bool) {
	switch of.Unit {
	case experiment.Tenant:
		return experiment.KeyOf("tenant", x.policy.Tenant), true
	case experiment.UserHeader:
		all := x.ctx.Request.Header.PeekAll(of.Header)
		if len(all) != 1 || len(all[0]) == 0 || len(all[0]) > maxUser {
			return 0, false
		}
		return experiment.KeyOf("user", x.policy.Tenant, string(all[0])), true
	}
	if id := req.History.Conversation; id != "" {
		return experiment.KeyOf("conversation", x.policy.Tenant, id), true
	}
	turn, ok := turnOf(x.policy.Tenant, req)
	if !ok {
		return 0, false
	}
	return x.server.experiments.Conversations.Of(x.life, x.policy.Tenant, &turn)
}

// turnOf identifies a turn of a conversation; ok is false for a chat without a message of the user.
func turnOf(tenant string, req *chat.Request) (t experiment.Turn, ok bool) {
	if id := req.History.Previous; id != "" {
		return experiment.Turn{Held: responseKey(tenant, id)}, true
	}
	first, latest := chat.UserMessages(req)
	if len(latest) == 0 {
		return t, false
	}
	user := req.EndUser()
	key := func(kind string, of ...chat.TurnDigest) experiment.Key {
		texts := []string{kind, tenant, user}
		for i := range of {
			texts = append(texts, string(of[i][:]))
		}
		return experiment.KeyOf(texts...)
	}
	t.First = key("first", first.Text)
	for i := range latest {
		t.Messages = append(t.Messages, key("message", latest[i].Text))
		if i > 0 {
			t.Pairs = append(t.Pairs, key("pair", latest[i].Text, latest[i].Reply, latest[i-1].Text))
		}
	}
	return t, true
}

// responseKey is the key of a response that an upstream holds.
func responseKey(tenant, id string) experiment.Key {
	return experiment.KeyOf("response", tenant, id)
}

// assignedChain reports whether the response of this chat must be known to be of its unit, as the
// upstream holds its conversation. A unit that is not known stays so, and so in arm A.
func (x *exchange) assignedChain() (assigned bool, unit experiment.Key) {
	e := x.policy.Experiment
	if x.report.Experiment.Name == "" && (e == nil || x.server.experiments == nil || e.Unit != experiment.Conversation || e.Over(x.report.Time)) {
		return false, 0
	}
	return true, experiment.Key(x.report.Experiment.Unit)
}

// noteFollowUp notes whether a chat that counts repeats the question before it.
func (x *exchange) noteFollowUp(a *attempt) {
	terms := x.server.documents.Terms
	if !x.report.Experiment.Counted || terms == nil {
		return
	}
	question, last := a.req.Question()
	before := ""
	for text := range a.req.Earlier(last, followup.MaxBytes, nil) {
		before = text
		break
	}
	if before == "" && len(a.asked.Earlier) > 0 {
		before = a.asked.Earlier[0]
	}
	if question != "" && before != "" {
		x.report.Experiment.FollowUp, x.report.Experiment.Repeats = true, experiment.Repeats(terms, question, before)
	}
}

// A FeedbackTaker gets applications' scores of answers. It must be safe for concurrent use.
type FeedbackTaker interface {
	// Feedback sets the score, from -1 to 1, of the answer to the request with an id. It returns false
	// if the request is not known, or not one of the tenant's.
	Feedback(tenant, id string, score float64) bool
}

// feedbackPath ends the paths of feedback.
const feedbackPath = "/v1/feedback"

// maxFeedback is the largest body of feedback, in bytes.
const maxFeedback = 4 << 10

// isFeedback reports whether this is feedback for Sidenote. If its tenant's policy has no experiment and
// is not recorded, such a request is relayed like any other.
func (x *exchange) isFeedback() bool {
	return x.target.Route == route.Other && !x.target.Ambiguous && x.ctx.IsPost() && strings.HasSuffix(x.target.Path, feedbackPath) && x.rates()
}

// rates reports whether answers of the tenant can be rated.
func (x *exchange) rates() bool {
	for p := range x.policy.All {
		if p.Experiment != nil && len(x.server.raters) > 0 || x.server.recorder.Records(p.Name) {
			return true
		}
	}
	return false
}

// takeFeedback answers a feedback request.
func (x *exchange) takeFeedback() error {
	x.report.Outcome, x.terms = rewrite.Answered, nil // not a call of the tenant
	body, whole, err := transport.ReadBody(x.ctx, maxFeedback, x.server.timeouts.ClientRead, x)
	switch {
	case err != nil:
		return x.server.transportError(err)
	case !whole:
		x.ctx.SetConnectionClose()
		return tooLarge(maxFeedback)
	}
	f, err := tenant.ReadFeedback(body)
	if err != nil {
		return err
	}
	if !x.rate(f) {
		return &tenant.APIError{Reason: report.ReasonFeedback, Param: "id", Message: "No answer with this id is known that can be rated. Ids are those of Sidenote-Id, and the latest are remembered."}
	}
	x.report.Status = http.StatusNoContent
	x.ctx.Response.SetStatusCode(http.StatusNoContent)
	x.ctx.Response.Header.Set(report.HeaderID, x.report.ID)
	return nil
}

// readFeedbackHeader takes the feedback in a header of a chat. The chat goes on if the id is not
// known.
func (x *exchange) readFeedbackHeader() error {
	f, ok, err := tenant.ReadFeedbackHeader(&x.ctx.Request.Header)
	if err != nil || !ok || !x.rates() {
		return err
	}
	x.rate(f)
	return nil
}

// rate passes a score on, and reports whether anybody knows the request.
func (x *exchange) rate(f tenant.Feedback) (known bool) {
	for _, r := range x.server.raters {
		known = r.Feedback(x.policy.Tenant, f.ID, f.Score) || known
	}
	if e := x.policy.Experiment; e != nil && !known && x.server.experiments != nil {
		known = x.server.experiments.FeedbackOf(x.life, &e.Settings, x.policy.Tenant, f.ID, f.Score)
	}
	x.server.metrics.Rated(known)
	return known
}
