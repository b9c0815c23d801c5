package replay_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/proxy/record/recordtest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

type models struct{}

func (models) Model(name string) model.Model {
	return model.Model{Row: name, Encoding: "words", Window: 1 << 20, Counter: words{}}
}

type words struct{}

func (words) Count(s string) (int, bool) { return len(strings.Fields(s)), true }

// A library finds the documents whose names are words of the question. Its fields may change between
// searches.
type library struct {
	generation string
	texts      map[string]string // by document
	fails      retrieval.Reason

	mu    sync.Mutex
	asked *filter.Filter // of the last search
}

func (l *library) Retrieve(_ context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	l.mu.Lock()
	l.asked = q.Filter
	l.mu.Unlock()
	for _, ref := range q.Bases {
		res.Bases = append(res.Bases, retrieval.Ref{Knowledge: ref.Knowledge, Generation: l.generation})
	}
	if l.fails != "" {
		res.Reason = l.fails
		return res, nil
	}
	for _, doc := range strings.Fields(q.Text) {
		if text, ok := l.texts[doc]; ok {
			res.Sources = append(res.Sources, retrieval.Source{Type: "rag", Knowledge: q.Bases[0].Knowledge, Doc: doc, Name: doc, Text: text, Score: 1, Relevance: 0.8})
		}
	}
	return res, nil
}

// A rig records requests as they are served and replays them.
type rig struct {
	library  *library
	policies map[string]*tenant.Policy
	replayer *replay.Replayer
}

func newRig() *rig {
	r := &rig{library: &library{generation: "1", texts: map[string]string{"leave": "16 weeks of leave", "pay": "paid on Fridays", "dogs": "dogs are welcome"}}, policies: map[string]*tenant.Policy{}}
	r.policy("plain", nil)
	r.replayer = &replay.Replayer{
		Runner: explain.DryRunner{Rewriter: &rewrite.Rewriter{Retriever: r.library, Models: models{}}},
		Resolve: func(name, policy string) (*tenant.Policy, error) {
			if name != "acme" {
				return nil, fmt.Errorf("%q: %w", name, replay.ErrTenant)
			}
			if p := r.policies[policy]; p != nil {
				return p, nil
			}
			return nil, fmt.Errorf("%q: %w", policy, replay.ErrPolicy)
		},
	}
	return r
}

// policy adds a policy.
func (r *rig) policy(name string, change func(*tenant.Policy)) {
	p := &tenant.Policy{Name: name, Hash: name, Tenant: "acme", Rewrite: rewrite.DefaultPolicy()}
	p.Rewrite.Tenant, p.Rewrite.Knowledge = "acme", []string{"kb"}
	if change != nil {
		change(p)
	}
	p.Rewrite.Digest = name
	r.policies[name] = p
}

// record returns the record of a request under a policy. change may change the request before.
func (r *rig) record(t *testing.T, policy, body string, api chat.API) *record.Record {
	t.Helper()
	run := replay.Replayer{Runner: r.replayer.Runner, Resolve: r.replayer.Resolve}
	rec := &record.Record{ID: fmt.Sprint(len(body), policy), Time: time.Unix(1_700_000_000, 0), Tenant: "acme", Policy: policy, Hash: policy, Mode: "inject", Body: []byte(body)}
	if api != chat.Completions {
		rec.API = api.String()
	}
	req, err := api.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	rec.Model, rec.Row = req.Model, req.Model
	rec.Question, _ = req.Question()
	_, last := req.Question()
	for text := range req.Earlier(last, 1<<10, nil) {
		rec.Earlier = append([]string{text}, rec.Earlier...)
	}
	now := run.Replay(t.Context(), rec)
	if now.Skipped != nil {
		t.Fatalf("not recorded: %+v", now.Skipped)
	}
	rec.Outcome, rec.Reason, rec.Block, rec.Tokens = now.Now.Outcome, now.Now.Reason, now.Now.Block, now.Now.Tokens
	for _, s := range now.Sources {
		rec.Sources = append(rec.Sources, record.Source{ID: s.Now, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk})
	}
	rec.Bases = []record.Base{{ID: "kb", Generation: r.library.generation}}
	rec.Budget = 2000
	return rec
}

// asked returns the record of a question, of which only the user's messages are known.
func (r *rig) asked(t *testing.T, policy, question string, earlier ...string) *record.Record {
	t.Helper()
	body := `{"model":"m","messages":[`
	for _, text := range earlier {
		body += fmt.Sprintf(`{"role":"user","content":%q},{"role":"assistant","content":"So it is."},`, text)
	}
	rec := r.record(t, policy, body+fmt.Sprintf(`{"role":"system","content":"Be brief."},{"role":"user","content":%q}]}`, question), chat.Completions)
	rec.Body = nil
	return rec
}

func (r *rig) replay(t *testing.T, rec *record.Record) *replay.Outcome {
	t.Helper()
	return r.replayer.Replay(t.Context(), rec)
}

// Where nothing has changed what is added is the same, byte for byte, whether the body was recorded
// or the questions.
func TestIdenticalWhereNothingChanged(t *testing.T) {
	bodies := map[chat.API][]string{
		chat.Completions: {
			`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"pay ?"},{"role":"assistant","content":"Fridays"},{"role":"user","content":"leave dogs"}]%s}`,
			`{"model":"m","messages":[{"role":"user","content":"leave dogs"}]%s}`,
		},
		chat.Responses: {`{"model":"m","instructions":"Be brief.","input":[{"role":"user","content":"leave dogs"}]%s}`, `{"model":"m","input":[{"role":"user","content":"leave dogs"}]%s}`},
		chat.Messages: {
			`{"model":"m","max_tokens":10,"system":"Be brief.","messages":[{"role":"user","content":"leave dogs"}]%s}`, `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"leave dogs"}]%s}`,
			`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"leave dogs"}],"system":"Be brief."%s}`,
		},
	}
	formats := map[chat.API]string{
		chat.Completions: `,"response_format":{"type":"json_object"}`, chat.Responses: `,"text":{"format":{"type":"json_object"}}`, chat.Messages: `,"output_config":{"format":{"type":"json_schema"}}`,
	}
	for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit} {
		r := newRig()
		r.policy("plain", func(p *tenant.Policy) { p.Rewrite.Placement = placement })
		for api, list := range bodies {
			for _, body := range list {
				for _, format := range []string{"", formats[api]} {
					checkIdentical(t, r, api, fmt.Sprintf(body, format))
				}
			}
		}
	}
}

// checkIdentical records and replays a request, also from its question alone. The budget has no room
// for a token more, so the message that the text is added to matters.
func checkIdentical(t *testing.T, r *rig, api chat.API, body string) {
	t.Helper()
	tokens := r.record(t, "plain", body, api).Tokens
	r.policies["plain"].Rewrite.ContextTokens = tokens
	defer func() { r.policies["plain"].Rewrite.ContextTokens = 2000 }()
	for _, whole := range []bool{true, false} {
		rec := r.record(t, "plain", body, api)
		if !whole {
			rec.Body = nil
		}
		if len(rec.Sources) != 2 {
			t.Fatalf("recorded %+v", rec)
		}
		if o := r.replay(t, rec); !o.Identical || !o.SameInput || o.Change != 0 || o.Now.Tokens != tokens || o.Incomparable != nil {
			t.Errorf("%s %s, whole body %v: %+v, %+v\nwas %q", r.policies["plain"].Rewrite.Placement, body, whole, o, o.Incomparable, rec.Block)
		}
	}
}

// A record with a smaller budget than the policy's, as limits or the window leave it, is replayed with
// that.
func TestSmallerBudgetOfRecord(t *testing.T) {
	r := newRig()
	rec := r.record(t, "plain", `{"model":"m","sidenote":{"context_tokens":70},"messages":[{"role":"user","content":"leave dogs pay"}]}`, chat.Completions)
	rec.Body, rec.Budget = nil, 70
	if o := r.replay(t, rec); !o.Identical || o.Incomparable != nil {
		t.Errorf("%+v", o)
	}
	rec.Budget = 2000
	if o := r.replay(t, rec); o.Identical {
		t.Errorf("the budget made no difference: %q", o.Now.Block)
	}
}

// What changed of the sources is shown, and how much.
func TestOtherSources(t *testing.T) {
	r := newRig()
	rec := r.asked(t, "plain", "leave dogs")
	delete(r.library.texts, "leave")
	r.library.generation = "2"
	o := r.replay(t, rec)
	want := []replay.Source{{Knowledge: "kb", Doc: "dogs", Name: "dogs", Change: "moved", Before: 2, Now: 1}, {Knowledge: "kb", Doc: "leave", Change: "removed", Before: 1}}
	if !slices.Equal(o.Sources, want) || o.SameInput || o.Identical || o.Incomparable != nil {
		t.Errorf("%+v", o)
	}
	second := 1 / math.Log2(3)
	if change := 1 - second/2; math.Abs(o.Change-change) > 1e-9 { // the smaller weights are 0 and second, the larger ones 1 and 1
		t.Errorf("change %v, want %v", o.Change, change)
	}
}

// A replay never shows more than the tenant and the record allow, and what cannot be replayed is
// counted with its cause.
func TestNeverWidened(t *testing.T) {
	r := newRig()
	limit := func(text string) *filter.Filter {
		f, err := filter.ParseWithClaims([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	const public, german = `{"type":"eq","key":"audience","value":"public"}`, `{"type":"eq","key":"language","value":"de"}`
	r.policy("filtered", func(p *tenant.Policy) { p.Rewrite.Filter = limit(public) })
	r.policy("elsewhere", func(p *tenant.Policy) { p.Rewrite.Knowledge = []string{"other"} })
	r.policy("both", func(p *tenant.Policy) { p.Rewrite.Knowledge = []string{"other", "kb"} })
	r.policy("claims", func(p *tenant.Policy) {
		p.Rewrite.Filter = limit(`{"type":"eq","key":"team","value":{"claim":"team"}}`)
	})
	rec := r.asked(t, "plain", "leave")
	rec.Filter = []byte(german)
	r.replayer.Policy = "filtered"
	if o := r.replay(t, rec); o.Skipped != nil || r.library.asked.String() != filter.AllOf(limit(public), limit(german)).String() {
		t.Errorf("searched with %s: %+v", r.library.asked, o.Skipped)
	}
	for policy, change := range map[string]func(*record.Record){
		replay.CauseTenant + " acme":              func(*record.Record) {},
		replay.CausePolicy + " gone":              func(rec *record.Record) { rec.Policy = "gone" },
		replay.CauseClaims + " acme":              func(rec *record.Record) { rec.Policy = "claims" },
		replay.CauseBases + " kb":                 func(rec *record.Record) { rec.Policy = "elsewhere" },
		replay.CauseClaims + " acme ":             func(rec *record.Record) { rec.Filter = []byte(`{"type":"in","key":"team","value":["${claims.team}"]}`) },
		replay.CauseUnread + ` "x" is no API`:     func(rec *record.Record) { rec.API = "x" },
		replay.CauseUnread + " filter: ":          func(rec *record.Record) { rec.Filter = []byte("{") },
		replay.CauseUnread + ` "x" is not a mode`: func(rec *record.Record) { rec.Asked = &record.Asked{Mode: "x"} },
	} {
		r.replayer.Policy = ""
		one := *rec
		one.Filter = nil
		if change(&one); strings.HasPrefix(policy, replay.CauseTenant) {
			one.Tenant = "former"
			policy = replay.CauseTenant + " former"
		}
		o := r.replay(t, &one)
		code, name, _ := strings.Cut(policy, " ")
		if o.Skipped == nil || o.Skipped.Code != code || !strings.HasPrefix(strings.Join(o.Skipped.Names, ","), strings.TrimSpace(name)) {
			t.Errorf("%s: %+v", policy, o.Skipped)
		}
	}
	r.replayer.Policy = "both"
	if o := r.replay(t, rec); o.Skipped != nil {
		t.Errorf("with one of its bases: %+v", o.Skipped)
	}
}

// Differences that say nothing about the policy are not compared.
func TestNotCompared(t *testing.T) {
	for code, change := range map[string]func(*rig, *record.Record){
		replay.CauseDegraded: func(r *rig, rec *record.Record) { rec.Reason, r.library.texts = rewrite.ReasonTimeout, nil },
		replay.CauseFailing:  func(r *rig, _ *record.Record) { r.library.fails = retrieval.ReasonTimeout },
		replay.CauseThen: func(_ *rig, rec *record.Record) {
			rec.Sources, rec.Bases, rec.Block, rec.Outcome, rec.Reason = nil, nil, "", rewrite.Untouched, rewrite.ReasonOff
		},
		replay.CauseTools:   func(r *rig, rec *record.Record) { rec.Mode, r.library.texts = "tools", nil },
		replay.CausePresent: func(_ *rig, rec *record.Record) { rec.Sources, rec.Block, rec.Reason = nil, "", rewrite.ReasonPresent },
		replay.CauseTexts:   func(_ *rig, rec *record.Record) { rec.Block += " and more" },
		replay.CauseHelpers: func(r *rig, _ *record.Record) {
			r.policy("plain", func(p *tenant.Policy) { p.Rewrite.Planner.MaxQueries = 2 })
			r.library.texts = nil
		},
		replay.CauseRepeat: func(r *rig, rec *record.Record) {
			r.policy("plain", func(p *tenant.Policy) { p.Rewrite.Repeat = rewrite.RepeatKeep })
			rec.Earlier, r.library.texts = []string{"pay"}, nil
		},
	} {
		r := newRig()
		rec := r.asked(t, "plain", "leave dogs")
		change(r, rec)
		if o := r.replay(t, rec); o.Skipped != nil || o.Incomparable == nil || o.Incomparable.Code != code {
			t.Errorf("%s: %+v, %+v", code, o.Skipped, o.Incomparable)
		}
	}
}

// Sums count each record once, and the most changed come first, in any order of work.
func TestReport(t *testing.T) {
	r := newRig()
	prices, err := budget.ParsePrices("2", "1", "8")
	if err != nil {
		t.Fatal(err)
	}
	priced := func(p *tenant.Policy) { p.Budget.Prices = budget.PriceTable{{Match: "m", Prices: prices}} }
	r.policy("plain", priced)
	var records recordtest.List
	for i, question := range []string{"leave dogs", "leave", "dogs", "nothing", "pay", "pay dogs"} {
		rec := r.asked(t, "plain", question)
		rec.ID, rec.Time, rec.RetrievalMS = fmt.Sprint(i), rec.Time.Add(time.Duration(i)*time.Hour), float64(i+1)
		records = append(records, rec)
	}
	records[5].Tenant = "former"
	r.library.texts = map[string]string{"leave": "16 weeks of leave", "pay": "paid on Mondays", "nothing": "not at all"}
	r.library.generation = "2"
	do := func(keep, last int) *replay.Report {
		t.Helper()
		run := replay.Run{Replayer: r.replayer, Store: records, Keep: keep, Select: replay.Selection{Last: last}, Progress: func(int, int) {}}
		report, err := run.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	got := do(2, 0)
	if got.Records != 6 || got.Replayed != 5 || got.Compared != 5 || got.Identical != 1 || got.OtherText != 1 || got.OtherSource != 3 {
		t.Errorf("%+v", got)
	}
	if want := (replay.Silence{Before: 1, Now: 1, Gained: 1, Lost: 1}); got.Silence != want {
		t.Errorf("silence %+v, want %+v", got.Silence, want)
	}
	if want := (replay.SourceTotal{Added: 1, Removed: 2}); got.Sources != want {
		t.Errorf("sources %+v, want %+v", got.Sources, want)
	}
	if len(got.Skipped) != 1 || got.Skipped[0].Cause != replay.CauseTenant || got.Skipped[0].Records != 1 || got.Skipped[0].Example != "5" {
		t.Errorf("skipped %+v", got.Skipped)
	}
	if got.Retrieval.Before != (replay.Quantiles{P50: 3, P95: 5, P99: 5}) {
		t.Errorf("times %+v", got.Retrieval)
	}
	if c := got.Cost; c.Priced != 5 || math.Abs(c.BeforeUSD-float64(got.Tokens.Before)*2e-6) > 1e-12 || c.Unpriced != nil {
		t.Errorf("cost %+v of %+v", c, got.Tokens)
	}
	if len(got.Bases) != 1 || got.Bases[0] != (replay.Base{ID: "kb", Other: 5}) {
		t.Errorf("bases %+v", got.Bases)
	}
	if len(got.Changed) != 2 || got.More != 2 || got.Changed[0].ID != "2" || got.Changed[1].ID != "3" {
		t.Errorf("changed %v, %d more", ids(got), got.More)
	}
	if all := do(replay.KeepAll, 0); len(all.Changed) != 4 || all.More != 0 {
		t.Errorf("all that changed: %v", ids(all))
	}
	if latest := do(1, 2); latest.Records != 2 || latest.Replayed != 1 {
		t.Errorf("the last two: %+v", latest)
	}
}

func ids(r *replay.Report) (list []string) {
	for _, o := range r.Changed {
		list = append(list, o.ID)
	}
	return list
}

// An empty store, an error of the store and the end of the context are told.
func TestRunEnds(t *testing.T) {
	r := newRig()
	run := replay.Run{Replayer: r.replayer, Store: recordtest.List{}, Progress: func(int, int) {}}
	if _, err := run.Do(t.Context()); !errors.Is(err, replay.ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
	damaged := errors.New("damaged")
	run.Store = failing{damaged}
	if _, err := run.Do(t.Context()); !errors.Is(err, damaged) {
		t.Errorf("damaged: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	run.Store = recordtest.List{r.asked(t, "plain", "leave")}
	if _, err := run.Do(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

type failing struct{ error }

func (f failing) All(record.Query) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) { yield(nil, f.error) }
}

// Where only the questions were recorded and nothing else has changed, sources that the messages may
// have held, and follow-ups, are not taken for changes; a lost source is.
func TestWhatQuestionsDoNotTell(t *testing.T) {
	r := newRig()
	held := r.record(t, "plain", `{"model":"m","messages":[{"role":"system","content":"16 weeks of leave"},{"role":"user","content":"leave dogs"}]}`, chat.Completions)
	if len(held.Sources) != 1 {
		t.Fatalf("the source that the messages held was added: %+v", held)
	}
	if o := r.replay(t, held); !o.Identical {
		t.Errorf("with the body: %+v", o)
	}
	held.Body = nil
	if o := r.replay(t, held); o.Incomparable == nil || o.Incomparable.Code != replay.CauseTexts {
		t.Errorf("with the question: %+v, %+v", o, o.Incomparable)
	}
	lost := r.asked(t, "plain", "leave dogs")
	delete(r.library.texts, "dogs")
	if o := r.replay(t, lost); o.Incomparable != nil || !o.SameInput || o.Change == 0 {
		t.Errorf("a lost source: %+v, %+v", o, o.Incomparable)
	}
	lost.Earlier = []string{"pay"}
	if o := r.replay(t, lost); o.Incomparable == nil || o.Incomparable.Code != replay.CauseTexts {
		t.Errorf("of a follow-up: %+v, %+v", o, o.Incomparable)
	}
}

// A question that is not recorded as it was asked is not compared.
func TestRedactedQuestion(t *testing.T) {
	r := newRig()
	rec := r.asked(t, "plain", "leave dogs")
	rec.Question = "leave (a number)"
	r.policy("other", func(p *tenant.Policy) { p.Rewrite.ContextTokens = 1000 })
	r.replayer.Policy = "other"
	if o := r.replay(t, rec); o.Incomparable == nil || o.Incomparable.Code != replay.CauseRedacted {
		t.Errorf("%+v, %+v", o, o.Incomparable)
	}
}

// The text that is added now is redacted as the policy that recorded the request demands, also if the
// request got the other policy of an experiment.
func TestRedactionOfAnExperiment(t *testing.T) {
	r := newRig()
	rec := r.asked(t, "plain", "leave dogs")
	redact := func(text string) string { return strings.ReplaceAll(text, "dogs", "(redacted)") }
	rec.Block, rec.By = redact(rec.Block), "records"
	r.replayer.Redact = func(policy string) func(string) string {
		if policy == "records" {
			return redact
		}
		return func(text string) string { return text }
	}
	if o := r.replay(t, rec); !o.Identical || !strings.Contains(o.Now.Block, "(redacted)") {
		t.Errorf("%+v", o)
	}
}

// Of a conversation that the upstream holds, the body does not tell the question's context, but the
// record does.
func TestConversationOfUpstream(t *testing.T) {
	r := newRig()
	rec := r.record(t, "plain", `{"model":"m","previous_response_id":"r1","input":[{"role":"user","content":"leave"}]}`, chat.Responses)
	rec.Question, rec.Earlier = "dogs", []string{"leave"}
	if o := r.replay(t, rec); o.Sources[0].Doc != "dogs" {
		t.Errorf("%+v", o)
	}
}
