package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

const (
	// editDiagnostics is the name of the edit in the ledger.
	editDiagnostics = "cache-diagnostics"
	betaHeader      = "Anthropic-Beta"
	betaDiagnostics = "cache-diagnosis-2026-04-07"

	// maxAnswers limits the memory for ids of earlier answers, in bytes.
	maxAnswers     = 1 << 20
	answerLifetime = time.Hour // about as long as caches last
)

// A diagnosis asks Anthropic's Messages API why a prompt could not be read from the cache. The API
// compares requests that have the member diagnostics only, so all turns of a conversation ask, or
// none.
type diagnosis struct {
	key      string // under which the id of the answer is remembered
	previous string // id of the answer to the turn before; "" if unknown
	edit     rewrite.Edit
}

// askDiagnosis makes a rewritten request ask for a diagnosis if its conversation is in the policy's
// sample. Clouds take no such question.
func (x *exchange) askDiagnosis(a *attempt) {
	share := x.policy.CacheDiagnostics
	if share == 0 || x.target.Route != route.Messages || x.report.Rewrite.Outcome != rewrite.Injected || x.tools != nil {
		return
	}
	of := chat.DigestConversation(a.req)
	if !sampled(of.First, share) || a.req.HasMember("diagnostics") || x.onCloud(a.req) {
		return
	}
	if contains(x.server.refusedEdits(x.upstream, a.req.Model), refusedDiagnostics) {
		x.report.LeftOut |= answer.EditDiagnostics
		return
	}
	d := &diagnosis{key: x.answerKey(of.This)}
	if of.Previous != (chat.TurnDigest{}) {
		id, _ := x.server.answers.Get(x.life, x.answerKey(of.Previous)) // it never fails
		d.previous = string(id)
	}
	previous := []byte("null")
	if d.previous != "" {
		previous, _ = json.Marshal(d.previous) // a string
	}
	text := slices.Concat([]byte(`"diagnostics":{"previous_message_id":`), previous, []byte("},"))
	d.edit = rewrite.Edit{Name: editDiagnostics, Offset: a.req.FirstMember(), Insert: rewrite.EditText{text}}
	x.diagnosis = d
}

// sampled reports whether the conversation that begins with a message is in a sample of that share.
func sampled(first chat.TurnDigest, share float64) bool {
	return float64(binary.BigEndian.Uint64(first[:8]))/(1<<64) < share
}

// onCloud reports whether a request is one for Bedrock or Vertex: the model is in the path, or the
// body names their version of the API.
func (x *exchange) onCloud(req *chat.Request) bool {
	return len(x.target.PathModels()) > 0 || req.HasMember("anthropic_version")
}

// answerKey returns the key for the answer to a turn. Other tenants and upstreams have other keys.
func (x *exchange) answerKey(turn chat.TurnDigest) string {
	h := sha256.New()
	for _, s := range [...]string{x.policy.Tenant, x.upstream.name, x.upstream.of.BaseURL.String(), string(turn[:])} {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	return string(h.Sum(nil))
}

// withBeta adds the beta of diagnostics to those of the application, if the request asks for one.
func (x *exchange) withBeta(lines []transport.Header) []transport.Header {
	if x.diagnosis == nil {
		return lines
	}
	var betas []string
	for _, value := range x.ctx.Request.Header.PeekAll(betaHeader) {
		betas = append(betas, string(value))
	}
	if all := strings.Join(betas, ","); !strings.Contains(all, betaDiagnostics) {
		betas = append(betas, betaDiagnostics)
	}
	return withLine(lines, transport.Header{Name: betaHeader, Value: strings.Join(betas, ",")})
}

// withoutBeta removes what withBeta has added.
func withoutBeta(lines []transport.Header) []transport.Header {
	return slices.DeleteFunc(slices.Clone(lines), func(h transport.Header) bool { return h.Name == betaHeader })
}

// readDiagnosis records the diagnosis in the answer, and remembers the answer's id for the next turn.
func (a *account) readDiagnosis() {
	d := a.diagnosis
	if d == nil || a.usageSkipped {
		return
	}
	got := a.reader.CacheDiagnosis()
	a.report.CacheMiss = report.CacheMiss{Reason: got.Reason, Tokens: got.Missed}
	if d.previous == "" && (got.Reason == answer.CacheMissNone || got.Reason == answer.CacheMissPending) {
		a.report.CacheMiss.Reason = answer.CacheMissFirst
	}
	if got.ID != "" {
		_ = a.server.answers.Set(context.Background(), d.key, []byte(got.ID), answerLifetime) // it never fails
	}
}
