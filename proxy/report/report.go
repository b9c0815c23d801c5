// Package report holds the record of a finished request. It writes the record to the response
// headers, to the request log, which never blocks a request, and to the Prometheus metrics, which
// also count events outside of requests.
package report

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Outcomes besides those of package rewrite.
const (
	Relayed rewrite.Outcome = "relayed" // a route that is not rewritten, or a chat whose client left before the decision
	Failed  rewrite.Outcome = "failed"  // the upstream gave no usable answer, or Sidenote has a bug
)

// Reasons of refusals and failures besides those of package rewrite. Together they are a closed
// list.
const (
	ReasonKey             rewrite.Reason = "invalid-api-key"          // no key, or an unknown or expired one
	ReasonCredentials     rewrite.Reason = "ambiguous-credentials"    // two different keys, or one header twice
	ReasonOrigin          rewrite.Reason = "foreign-origin"           // a page of another site, without a key
	ReasonHost            rewrite.Reason = "unknown-host"             // a Host that is not Sidenote's, without a key
	ReasonRouteRefused    rewrite.Reason = "route-not-allowed"        // not among the tenant's routes
	ReasonModel           rewrite.Reason = "model-not-allowed"        // not among the tenant's models, or none is named
	ReasonClaim           rewrite.Reason = "missing-claim"            // the caller's token lacks a claim that a filter needs
	ReasonRateLimit       rewrite.Reason = "rate-limit"               // a limit per minute, or of parallel requests, is reached
	ReasonQuota           rewrite.Reason = "quota"                    // a limit per day or month is reached
	ReasonLimit           rewrite.Reason = "limit"                    // the limits allow the request, but no sources
	ReasonEdits           rewrite.Reason = "edit-refused"             // the upstream refused the request with sources; it is sent again without
	ReasonNoPrice         rewrite.Reason = "no-price"                 // money is limited, and the model's price is unknown
	ReasonLedger          rewrite.Reason = "ledger-unavailable"       // the tenant's usage cannot be read
	ReasonPath            rewrite.Reason = "ambiguous-path"           // raw and normalised path differ
	ReasonMisdirected     rewrite.Reason = "misdirected"              // CONNECT: Sidenote is not a forward proxy
	ReasonBodyRead        rewrite.Reason = "body-read"                // the body was incomplete
	ReasonBodySlow        rewrite.Reason = "request-timeout"          // the body came too slowly
	ReasonShutdown        rewrite.Reason = "shutting-down"            // Shutdown was called
	ReasonUpstreamConnect rewrite.Reason = "upstream-connect"         // nothing was sent
	ReasonConnectTimeout  rewrite.Reason = "upstream-connect-timeout" // no connection in time; nothing was sent
	ReasonUpstreamTimeout rewrite.Reason = "upstream-timeout"         // connected, but no answer in time
	ReasonUpstreamBroken  rewrite.Reason = "upstream-broken"          // closed or unreadable before an answer
	ReasonUnfit           rewrite.Reason = "unfit-for-stages"         // it cannot be answered in stages, which the policy requires
	ReasonStage           rewrite.Reason = "stage-failed"             // a stage of the answer failed, and there is no fallback
	ReasonStageTimeout    rewrite.Reason = "stage-timeout"            // the same, because it took too long
	ReasonFeedback        rewrite.Reason = "unknown-feedback-id"      // the id of the feedback is not known, or not the tenant's
	ReasonInternal        rewrite.Reason = "internal"                 // a bug in Sidenote
)

// A By is the way in which a caller was identified.
type By string

// The ways to identify a caller.
const (
	ByKey      By = "key"      // the digest of an API key
	ByJWT      By = "jwt"      // the claims of a verified token
	ByHeader   By = "header"   // Sidenote-Tenant, from a trusted peer
	ByListener By = "listener" // the listener on which the request came
	ByUnknown  By = "unknown"  // not identified; the policy for unknown callers applies
)

// A ClientEnd says how the client's side of a request ended.
type ClientEnd string

// The possible ends.
const (
	ClientCompleted     ClientEnd = "completed"
	ClientGoneFirst     ClientEnd = "aborted_before_first_byte"
	ClientGoneStreaming ClientEnd = "aborted_streaming"
	ClientCutUpstream   ClientEnd = "cut_by_upstream" // the upstream broke off its answer, or stopped sending
	ClientCutShutdown   ClientEnd = "cut_by_shutdown" // when the time for a graceful shutdown ended
)

// PlannerOff is the value of planner in headers and log if planning is off.
const PlannerOff = "off"

// A Report holds all that is known about a finished request. Headers, metrics and log are made
// from it alone.
type Report struct {
	ID   string    // ULID, the Sidenote-Id of the answer
	Time time.Time // when the request header had been read

	TraceID   trace.TraceID // of the caller's traceparent or, if that is missing, of our own span; zero without both
	Sampled   bool          // the trace is recorded, by the caller or here
	RequestID string        // the caller's X-Request-Id, see ReadRequestID

	Tenant     string     // "" if the caller was refused
	By         By         // how the caller was identified; "" if it was refused
	Key        string     // name of the API key used; "" if it has no name or none was used
	Address    netip.Addr // of the client, as far as known; zero on a unix socket
	Denied     string     // why the caller was refused, from a closed list; only for the log
	Policy     string     // name
	PolicyHash string
	Upstream   string // name; "" if none was chosen
	Expose     Expose

	Route route.Kind
	Mode  string // of a chat: the policy's mode, or a lower one that the request asked for; "" if not determined
	// SwitchedFrom is the policy's mode if the kill switch lowered it for a chat, else "".
	SwitchedFrom string
	Stream       bool // the client asked for a stream
	Status       int  // of the answer; 499 if the client left before it

	Outcome rewrite.Outcome
	Reason  rewrite.Reason // why there are no sources, or the answer broke off; "" if there is nothing to explain
	Rewrite rewrite.Result // zero if no rewrite was tried; in mode shadow, what would have been done

	Calls     []Call // to the upstream, in order
	Truncated bool   // the upstream's answer was incomplete

	Refused answer.RefusedEdits // edits left out of a retry because the upstream refused them
	LeftOut answer.RefusedEdits // edits left out from the start because the upstream refused them in an earlier request

	Client ClientEnd

	Usage       answer.Usage        // of the last call, or of all rounds with tools, as reported; zero if not reported
	UsageFound  answer.UsageFinding // "" if there was no answer that could report usage
	UsageDetail string              // the numbers for which the usage was ignored; "" if it was not
	Context     ContextUsage        // what Usage and the charge have of the tokens that were added
	CacheMiss   CacheMiss           // why the upstream's cache missed; zero if it was not asked
	Answered    answer.ServedBy     // model and service tier that the last answer names, if it is charged
	Generated   answer.CountedUsage // our own count of the output, if a metered answer did not report usage

	ToolsSkipped  string                 // why no tools were offered though the policy has them; from a closed list
	Tools         *Tools                 // the model's tool calls; nil if no tools were offered
	StagesSkipped string                 // why the chat was not answered in stages though the policy wants it; from a closed list
	Stages        *Stages                // the stages of the answer; nil if it was not answered in stages
	Citations     *answer.CitationReport // nil if citations were not checked

	Budget Budget // what was reserved and charged; without limits, what was used

	Experiment Experiment // of which the request is a part; zero if of none

	Overhead time.Duration // from request read (for a chat, with its body) to request handed to the upstream; 0 if it was not
	TTFB     time.Duration // from Time to the head of the answer
	Total    time.Duration // from Time to the end of the answer
}

// A Budget says what a request took of its tenant's budget.
type Budget struct {
	Rung        string                 // of the ladder; "" if the request was not reduced
	Estimate    budget.Amount          // reserved
	Charged     budget.Amount          // settled
	By          answer.SettlementBasis // the basis of Charged
	Tier        string                 // service_tier whose prices applied; "" for the standard ones
	Implausible bool                   // the reported usage was implausible, so our own count was used
}

// A Purpose says why an upstream was called.
type Purpose string

// The purposes of calls.
const (
	ToAnswer       Purpose = "answer"         // the request itself
	ToRetryShorter Purpose = "context-length" // retry with fewer sources, as the request was too long for the upstream
	ToRetryEdits   Purpose = "edit-refused"   // retry without the edits that the upstream refused
)

// A Call is one request to an upstream.
type Call struct {
	Upstream     string // name
	Model        string // row of the model table, if it is not that of the request
	Purpose      Purpose
	Status       int           // of the answer; 0 if there was none
	Began        time.Time     // when the request was handed to the upstream's client
	Took         time.Duration // to the head of the answer, or to the error
	FirstToken   time.Duration // from Began to the first generated token of a stream; 0 if none was seen
	PromptTokens int           // as reported by the upstream; 0 if not reported
	RequestID    string        // the upstream's own id of the call, see ReadRequestID; "" if unknown

	Error string        // how the upstream failed, a class of package transport; "" if it did not
	Limit time.Duration // the time limit that it exceeded; 0 for other errors
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

// NewID returns a new ULID: sortable by time, with 80 random bits that cannot be guessed. They
// come from the runtime's ChaCha8 generator, which the operating system seeds per thread and which
// erases its keys as it goes. It is much cheaper than crypto/rand, and an id gives access to
// nothing.
func NewID(now time.Time) string {
	var id ulid.ULID
	random := rand.Uint64()
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|random>>48)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id.String()
}

// Milliseconds returns a duration in milliseconds, as used in JSON.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Model returns the matched row of the model table, "" if no body was read.
func (r *Report) Model() string { return r.Rewrite.Model.Row }

// API names the API of a rewritten request, "" for chat completions and what is not rewritten.
func (r *Report) API() string {
	if r.Route == route.Chat || !r.Route.Rewritten() {
		return ""
	}
	return r.Route.API().String()
}

// Sources returns the number of sources added to the prompt.
func (r *Report) Sources() int {
	n := 0
	for i := range r.Rewrite.Ledger.Sources {
		if r.Rewrite.Ledger.Sources[i].ID > 0 {
			n++
		}
	}
	return n
}

// Degraded reports whether retrieval failed and the request went on without it.
func (r *Report) Degraded() bool {
	return r.Outcome != rewrite.Refused && retrieval.Reason(r.Rewrite.Reason).Failed()
}

// PlanFailed returns why planning failed; "" if it did not, or there was none.
func (r *Report) PlanFailed() retrieval.PlanReason {
	if p := r.Rewrite.Ledger.Planned; p != nil && p.Fallback.Failed() && r.Outcome != rewrite.Refused {
		return p.Fallback
	}
	return ""
}

// RerankFailed returns why reranking failed; "" if it did not, or there was none.
func (r *Report) RerankFailed() retrieval.RerankReason {
	if r.Outcome == rewrite.Refused {
		return ""
	}
	return r.Rewrite.Ledger.Reranked.Failed()
}

// GradeFailed returns why grading failed; "" if it did not, or there was none.
func (r *Report) GradeFailed() retrieval.RerankReason {
	if r.Outcome == rewrite.Refused {
		return ""
	}
	return r.Rewrite.Ledger.Graded.Failed()
}

// A Recorder receives the Report of each finished request. Record must not keep or change the
// Report, must not block, and must be safe for concurrent use.
type Recorder interface{ Record(r *Report) }

// Recorders is a Recorder that passes each Report to all its elements in order.
type Recorders []Recorder

// Record calls Record of each element.
func (rs Recorders) Record(r *Report) {
	for _, rec := range rs {
		rec.Record(r)
	}
}

// A factory makes registered metrics in the namespace "sidenote".
type factory struct {
	promauto.Factory
	native bool // histograms are native ones too
}

func optsOf(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "sidenote", Name: name, Help: help}
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts(optsOf(name, help)), labels)
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts(optsOf(name, help)), labels)
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Namespace: "sidenote", Name: name, Help: help, Buckets: buckets}
	if f.native { // buckets that grow by a tenth, at most 160, as Prometheus suggests
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = 1.1, 160, time.Hour
	}
	return f.NewHistogramVec(o, labels)
}

// overheadBuckets range from 50 µs to 5 s.
func overheadBuckets() []float64 {
	return []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5}
}
