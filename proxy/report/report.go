// Package report holds the record of a request that has ended, and writes it: into the headers of
// the answer, into the request log, which never lets a request wait, and into the metrics for
// Prometheus, where it also counts what happens beside requests.
package report

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/oklog/ulid/v2"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// The outcomes beside those of package rewrite.
const (
	Relayed rewrite.Outcome = "relayed" // a route that Sidenote does not rewrite, or a chat whose client left before it was decided on
	Failed  rewrite.Outcome = "failed"  // the upstream gave no usable answer, or Sidenote has a bug
)

// The reasons of refusals and failures beside those of package rewrite. Together they
// are a closed list.
const (
	ReasonKey             rewrite.Reason = "invalid-api-key"       // no key, or an unknown or expired one
	ReasonCredentials     rewrite.Reason = "ambiguous-credentials" // two keys that differ, or one header twice
	ReasonOrigin          rewrite.Reason = "foreign-origin"        // a page of another site, without a key
	ReasonHost            rewrite.Reason = "unknown-host"          // a Host that is not Sidenote's, without a key
	ReasonRouteRefused    rewrite.Reason = "route-not-allowed"     // not among the tenant's routes
	ReasonModel           rewrite.Reason = "model-not-allowed"     // not among the tenant's models, or none is named
	ReasonClaim           rewrite.Reason = "missing-claim"         // the caller's token lacks what a filter asks for
	ReasonRateLimit       rewrite.Reason = "rate-limit"            // a limit by the minute, or of parallel requests, is reached
	ReasonQuota           rewrite.Reason = "quota"                 // a limit by the day or month is reached
	ReasonLimit           rewrite.Reason = "limit"                 // the limits have room for the request, and for no sources
	ReasonEdits           rewrite.Reason = "edit-refused"          // the upstream refused the request with sources, and is asked without
	ReasonNoPrice         rewrite.Reason = "no-price"              // money is limited, and nobody knows what the model costs
	ReasonLedger          rewrite.Reason = "ledger-unavailable"    // what the tenant used cannot be looked up
	ReasonPath            rewrite.Reason = "ambiguous-path"        // raw and normalised path differ
	ReasonMisdirected     rewrite.Reason = "misdirected"           // CONNECT: Sidenote is no forward proxy
	ReasonBodyRead        rewrite.Reason = "body-read"             // the body did not arrive whole
	ReasonBodySlow        rewrite.Reason = "request-timeout"       // the body came too slowly
	ReasonShutdown        rewrite.Reason = "shutting-down"         // Shutdown was called
	ReasonUpstreamConnect rewrite.Reason = "upstream-connect"      // nothing was sent
	ReasonUpstreamTimeout rewrite.Reason = "upstream-timeout"      // no answer in time
	ReasonUpstreamBroken  rewrite.Reason = "upstream-broken"       // closed or unreadable before an answer
	ReasonUnfit           rewrite.Reason = "unfit-for-stages"      // it cannot be answered in stages, as it must be
	ReasonStage           rewrite.Reason = "stage-failed"          // a stage of the answer failed, and nothing may take its place
	ReasonStageTimeout    rewrite.Reason = "stage-timeout"         // the same, as it took too long
	ReasonInternal        rewrite.Reason = "internal"              // a bug in Sidenote
)

// A By says by what a caller was recognised.
type By string

// The ways.
const (
	ByKey      By = "key"      // the digest of an API key
	ByJWT      By = "jwt"      // the claims of a verified token
	ByHeader   By = "header"   // Sidenote-Tenant, from a trusted peer
	ByListener By = "listener" // the listener on which the request came
	ByUnknown  By = "unknown"  // nothing: the tenant is that of unknown callers
)

// A ClientEnd says how the client's side of a request ended.
type ClientEnd string

// The ends.
const (
	ClientCompleted     ClientEnd = "completed"
	ClientGoneFirst     ClientEnd = "aborted_before_first_byte"
	ClientGoneStreaming ClientEnd = "aborted_streaming"
	ClientCutUpstream   ClientEnd = "cut_by_upstream" // the upstream broke off its answer, or stopped sending
	ClientCutShutdown   ClientEnd = "cut_by_shutdown" // at the end of the time for a shutdown
)

// PlannerOff is the value of planner in headers and log where nothing is planned.
const PlannerOff = "off"

// A Report is everything that is known about one request when it has ended. Headers,
// metrics and log are made from it and from nothing else.
type Report struct {
	ID   string    // ULID, the Sidenote-Id of the answer
	Time time.Time // when the head of the request had been read

	Tenant     string     // "" for callers that were refused
	By         By         // how the caller was recognised; "" for callers that were refused
	Key        string     // name of the tenant's key that the caller has; "" if it has none, or no name
	Address    netip.Addr // of the client, as far as it is known; zero on a unix socket
	Denied     string     // of a caller that was refused: why, of a closed list, for the log only
	Policy     string     // name
	PolicyHash string
	Upstream   string // name; "" when none was chosen
	Expose     Expose

	Route route.Kind
	Mode  string // of a chat: the policy's, or less if the request asked for less; "" if that was not found out
	// SwitchedFrom is, of a chat, the policy's mode where the kill switch has lowered it; else "".
	SwitchedFrom string
	Stream       bool // the client asked for a stream
	Status       int  // code of the answer; 499 when the client left before it

	Outcome rewrite.Outcome
	Reason  rewrite.Reason // why there are no sources, or the answer broke; "" if there is nothing to explain
	Rewrite rewrite.Result // zero if no rewrite was tried; in mode shadow, what would have been done

	Calls     []Call // to the upstream, in their order
	Truncated bool   // the upstream's answer ended before its end

	Refused answer.RefusedEdits // left out when the request was sent again, as the upstream had refused it
	LeftOut answer.RefusedEdits // left out from the start, as the upstream refused them in an earlier request

	Client ClientEnd

	Usage      answer.Usage        // of the last call, or of all rounds with tools, as the answers told it; zero if they did not
	UsageFound answer.UsageFinding // "" if there was no answer that could tell it
	Answered   answer.Named        // what the last answer tells of itself, where it is paid
	Generated  answer.CountedUsage // our count of its text, where a metered answer did not tell what it used

	Unoffered string                 // why no tools were offered though the policy does; of a closed list
	Tools     *Tools                 // what its model did with tools of ours; nil where it was offered none
	Unstaged  string                 // why the chat was not answered in stages though the policy wants it; of a closed list
	Stages    *Stages                // what became of its stages; nil where it was not answered in any
	Citations *answer.CitationReport // of the answer; nil where they were not checked

	Budget Budget // what was reserved and charged; without limits, what it took

	Overhead time.Duration // from request read (a chat's with its body) to request handed to the upstream; 0: never handed
	TTFB     time.Duration // from Time to the head of the answer
	Total    time.Duration // from Time to the end of the answer
}

// A Budget is what a request took of its tenant's.
type Budget struct {
	Rung        string                 // of the ladder; "" if the request had room as it was
	Estimate    budget.Amount          // reserved
	Charged     budget.Amount          // settled
	By          answer.SettlementBasis // what Charged rests on
	Tier        string                 // service_tier by whose prices; "" for the usual ones
	Implausible bool                   // the upstream told more than can be true, and our own count was taken
}

// A Purpose says why an upstream was called.
type Purpose string

// The purposes.
const (
	ToAnswer       Purpose = "answer"         // the request itself
	ToRetryShorter Purpose = "context-length" // the same with fewer sources, as it was too long for the upstream
	ToRetryEdits   Purpose = "edit-refused"   // the same without edits that the upstream refuses
)

// A Call is one request to an upstream.
type Call struct {
	Upstream     string // name
	Purpose      Purpose
	Status       int           // of the answer; 0: there was none
	Took         time.Duration // to the head of the answer, or to the error
	PromptTokens int           // as the upstream told them; 0: it did not
}

// UpstreamStatus returns the status of the upstream's last answer, 0 if there was none.
func (r *Report) UpstreamStatus() int {
	if len(r.Calls) == 0 {
		return 0
	}
	return r.Calls[len(r.Calls)-1].Status
}

// Retried reports whether the request was sent again with fewer sources.
func (r *Report) Retried() bool {
	return len(r.Calls) > 1 && r.Calls[1].Purpose == ToRetryShorter
}

// NewID returns a fresh ULID: sortable by time, with 80 random bits that cannot be
// guessed. They come from the runtime's ChaCha8 generator, which the operating system
// seeds for each thread and which erases its keys as it goes. It costs a fraction of
// crypto/rand, and an id names a request but gives access to nothing.
func NewID(now time.Time) string {
	var id ulid.ULID
	random := rand.Uint64()
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|random>>48)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id.String()
}

// Milliseconds returns a duration as JSON has it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Model returns the matched row of the model table, "" if no body was read.
func (r *Report) Model() string { return r.Rewrite.Model.Row }

// Sources counts the sources that were added to the prompt.
func (r *Report) Sources() int {
	n := 0
	for i := range r.Rewrite.Ledger.Sources {
		if r.Rewrite.Ledger.Sources[i].ID > 0 {
			n++
		}
	}
	return n
}

// Degraded tells whether a search failed and the request went on without it.
func (r *Report) Degraded() bool {
	return r.Outcome != rewrite.Refused && retrieval.Reason(r.Rewrite.Reason).Failed()
}

// PlanFailed says why a planner was no help although it was asked; "" if it was, or was not
// asked.
func (r *Report) PlanFailed() retrieval.PlanReason {
	if p := r.Rewrite.Ledger.Planned; p != nil && p.Fallback.Failed() && r.Outcome != rewrite.Refused {
		return p.Fallback
	}
	return ""
}

// RerankFailed says why the order that the policy asks for is missing; "" if it is not.
func (r *Report) RerankFailed() retrieval.RerankReason {
	if r.Outcome == rewrite.Refused {
		return ""
	}
	return r.Rewrite.Ledger.Reranked.Failed()
}

// GradeFailed says why the grades that the policy asks for are missing; "" if they are not.
func (r *Report) GradeFailed() retrieval.RerankReason {
	if r.Outcome == rewrite.Refused {
		return ""
	}
	return r.Rewrite.Ledger.Graded.Failed()
}

// A Recorder takes the Report of each request that ended. It must not keep or change
// the Report, must not block, and must be safe for concurrent use.
type Recorder interface{ Record(r *Report) }

// Recorders is a Recorder that passes each Report to all of its own, in order.
type Recorders []Recorder

// Record calls Record of each.
func (rs Recorders) Record(r *Report) {
	for _, rec := range rs {
		rec.Record(r)
	}
}
