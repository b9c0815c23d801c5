package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// An Asker sends replayed requests to the upstream of their policy, without tools and stages, as long
// as the budget has room for the most that the next one can cost. It is safe for concurrent use.
type Asker struct {
	Upstreams map[string]proxy.Upstream // by name
	Key       string                    // for upstreams without a key of their own; "" for none
	Budget    budget.PicoDollars

	clients sync.Map // *http.Client by upstream

	mu      sync.Mutex
	settled sync.Cond          // an open call ended; its lock is mu
	spent   budget.PicoDollars // with what open calls may cost
	open    int                // calls
	ended   bool               // the budget had no room for a call
}

// NewAsker returns an Asker with a budget.
func NewAsker(upstreams map[string]proxy.Upstream, key string, limit budget.PicoDollars) *Asker {
	k := &Asker{Upstreams: upstreams, Key: key, Budget: limit}
	k.settled.L = &k.mu
	return k
}

// An Answer is what the model said to a replayed request.
type Answer struct {
	Error            string  `json:"error,omitempty"` // why there is none, such as "429" or "timeout"
	Citations        int     `json:"citations"`
	Unknown          int     `json:"unknown_citations"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	CostUSD          float64 `json:"cost_usd"`
	TookMS           float64 `json:"took_ms"`

	notAsked bool           // for the budget
	then     *record.Record // nil if its answer was not read
	fatal    error          // nobody can be asked
}

// Answers compares answers with those recorded, of requests that have both.
type Answers struct {
	BudgetUSD float64    `json:"budget_usd"`
	SpentUSD  float64    `json:"spent_usd"`
	Answered  int        `json:"answered"`
	Compared  int        `json:"compared"`  // answered, and the recorded answer was read
	NotAsked  int        `json:"not_asked"` // the budget had no room
	Errors    []Count    `json:"errors"`
	Before    AnswerSide `json:"before"`
	Now       AnswerSide `json:"now"`
}

// An AnswerSide sums up the answers before or now.
type AnswerSide struct {
	Citing           int     `json:"citing"` // answers that cite a source
	CitingShare      float64 `json:"citing_share"`
	Citations        int     `json:"citations"`
	Unknown          int     `json:"unknown_citations"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	CostUSD          float64 `json:"cost_usd"`
}

const (
	callWait  = 5 * time.Minute
	maxCalls  = 5           // of one request, with those that the upstream refused for a limit
	maxWait   = time.Minute // before such a call is repeated
	firstWait = time.Second // if the upstream does not say
	// maxLength limits the tokens of answers to requests without a limit of their own.
	maxLength = 2048
)

// paths are those of the upstream's routes, by API.
var paths = [...]string{chat.Completions: "/v1/chat/completions", chat.Responses: "/v1/responses", chat.Messages: "/v1/messages"}

// metered are the kinds of bodies, by API.
var metered = [...]rewrite.MeteredRoute{chat.Completions: rewrite.MeteredChat, chat.Responses: rewrite.MeteredResponses, chat.Messages: rewrite.MeteredMessages}

// routes are the kinds of answers, by API.
var routes = [...]route.Kind{chat.Completions: route.Chat, chat.Responses: route.Responses, chat.Messages: route.Messages}

// A call is a request to an upstream.
type call struct {
	api    chat.API
	to     proxy.Upstream
	req    *chat.Request // without the edits
	body   []byte        // with them
	prompt int64         // tokens
	most   budget.Demand
	prices budget.Tariff
	tier   string
}

// ask sends the request of an attempt. It returns nil if there is nothing to ask a model.
func (k *Asker) ask(ctx context.Context, a *attempt, now *explain.DryRunResult) *Answer {
	if now.Outcome == rewrite.Refused || now.Outcome == rewrite.Answered {
		return nil
	}
	c, err := k.callOf(a, now)
	if err != nil {
		return &Answer{fatal: err}
	}
	worst, err := c.prices.MaxCost(c.most, c.tier)
	if err != nil {
		return &Answer{fatal: fmt.Errorf("model %s: %w", now.Rewrite.Ledger.Model, err)}
	}
	if !k.reserve(worst) {
		return &Answer{notAsked: true}
	}
	start := time.Now()
	answer, cost := k.send(ctx, c, now, worst)
	k.settle(worst, cost)
	answer.CostUSD, answer.TookMS = dollars(cost), float64(time.Since(start).Milliseconds())
	if a.rec.Checked {
		answer.then = a.rec
	}
	return answer
}

// callOf returns the call for a rewritten request. The error says why nobody can be asked.
func (k *Asker) callOf(a *attempt, now *explain.DryRunResult) (*call, error) {
	c := &call{api: *a.run.API, to: k.Upstreams[a.policy.Upstream]}
	if c.to.BaseURL == nil {
		return nil, fmt.Errorf("policy %s has no upstream to ask", a.policy.Name)
	}
	m, err := rewrite.ReadMetered(metered[c.api], now.Body)
	if err == nil {
		c.req, err = c.api.Parse(now.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", a.rec.ID, err)
	}
	model := now.Rewrite.Model
	m.OutputCaps = rewrite.OutputCaps{Tenant: a.policy.OutputCap, Model: cmp.Or(model.MaxOutput, maxLength), Default: maxLength, Completion: model.CompletionCap}
	var ok bool
	if c.prices, ok = a.policy.Budget.Prices.Find(m.ModelName(), model.Row); !ok {
		return nil, fmt.Errorf("model %q: %w, so no budget can be kept; give it one in prices", m.ModelName(), budget.ErrNoPrice)
	}
	c.prompt = int64(now.Rewrite.Ledger.Window.Request + now.Rewrite.Ledger.Grown())
	most := m.Estimate(c.prompt)
	c.most, c.tier = budget.Demand{Input: most.Input, Output: most.Output, ForHour: m.CachesForHour()}, m.ServiceTier()
	c.body = rewrite.ApplyEdits(nil, now.Body, rewrite.MergeEdits(now.Rewrite.Edits, m.Edits()))
	return c, nil
}

// reserve takes an amount of the budget. If open calls hold what it needs, it waits for them. Once
// there is no room, nothing is asked any more.
func (k *Asker) reserve(amount budget.PicoDollars) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for amount > k.Budget-k.spent && k.open > 0 && !k.ended {
		k.settled.Wait()
	}
	if k.ended = k.ended || amount > k.Budget-k.spent; k.ended {
		return false
	}
	k.spent += amount
	k.open++
	return true
}

// settle replaces a reserved amount by the cost.
func (k *Asker) settle(reserved, cost budget.PicoDollars) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spent += cost - reserved
	k.open--
	k.settled.Broadcast()
}

// Spent returns what was spent.
func (k *Asker) Spent() budget.PicoDollars {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.spent
}

func dollars(amount budget.PicoDollars) float64 { return float64(amount) / float64(budget.Dollar) }

// send sends a call until it is answered, and returns the answer with its cost.
func (k *Asker) send(ctx context.Context, c *call, now *explain.DryRunResult, worst budget.PicoDollars) (*Answer, budget.PicoDollars) {
	wait := firstWait
	for n := 1; ; n++ {
		resp, body, err := k.post(ctx, c)
		switch {
		case err != nil:
			return &Answer{Error: errorClass(err)}, worst // it may have been answered
		case resp.StatusCode == http.StatusTooManyRequests && n < maxCalls && pause(ctx, retryAfter(resp.Header, wait)):
			wait *= 2
			continue
		case resp.StatusCode != http.StatusOK:
			cost := budget.PicoDollars(0)
			if answer.OutcomeOf(resp.StatusCode, true) == answer.OutcomeUnknown {
				cost = worst
			}
			return &Answer{Error: strconv.Itoa(resp.StatusCode)}, cost
		}
		return c.read(body, now, worst)
	}
}

// post sends a call once.
func (k *Asker) post(ctx context.Context, c *call) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	base := c.to.BaseURL
	address := base.Scheme + "://" + base.Host + transport.TargetOn(base, []byte(paths[c.api]), "")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(c.body))
	if err != nil {
		return nil, nil, err
	}
	if key := proxy.OwnKey(c.to); key != nil {
		req.Header = key
	} else if k.Key != "" {
		req.Header.Set("Authorization", "Bearer "+k.Key)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.api == chat.Messages {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	resp, err := k.client(c.to).Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answer.MaxCitedJSON))
	return resp, body, err
}

// client returns the client of an upstream. It follows no redirects, which could take the key
// elsewhere.
func (k *Asker) client(to proxy.Upstream) *http.Client {
	if c, ok := k.clients.Load(to.Name); ok {
		return c.(*http.Client)
	}
	c, _ := k.clients.LoadOrStore(to.Name, &http.Client{
		Transport:     &http.Transport{DialContext: to.Dial.DialContext, TLSClientConfig: to.Dial.TLS(to.BaseURL.Hostname()), ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return c.(*http.Client)
}

// Close closes idle connections.
func (k *Asker) Close() {
	k.clients.Range(func(_, c any) bool {
		c.(*http.Client).CloseIdleConnections()
		return true
	})
}

// errorClass returns why there was no answer, in a word.
func errorClass(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return "connection"
}

// retryAfter returns how long to wait as the upstream says, or else wait.
func retryAfter(h http.Header, wait time.Duration) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		wait = time.Duration(min(n, int(maxWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = max(time.Until(at), 0)
	}
	return min(wait, maxWait)
}

// pause waits; it returns false if ctx ends before.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the answer to a call, and returns it with its cost.
func (c *call) read(body []byte, now *explain.DryRunResult, worst budget.PicoDollars) (*Answer, budget.PicoDollars) {
	var usage answer.UsageReader
	usage.Reset(routes[c.api], false, "")
	usage.Write(body)
	used, found := usage.Usage()
	used, by, _ := answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: used, Found: found, Prompt: c.prompt, Longest: c.most.Output}.Settle()
	cost, _, err := c.prices.Cost(budget.Tokens{Input: used.Input, CachedInput: used.CachedInput, CacheWrite: used.CacheWrite, CacheWrite1h: used.CacheWrite1h, Output: used.Output},
		budget.Tier{Requested: c.tier, Reported: usage.ServedBy().Tier})
	if err != nil || by == answer.SettledAsEstimated {
		cost = worst
	}
	a := &Answer{PromptTokens: used.Input, CompletionTokens: used.Output}
	checked := c.citations(body, now)
	if checked.Unread != "" {
		a.Error = "not_a_chat"
	}
	a.Citations, a.Unknown = checked.Times(), checked.Unknown
	return a, cost
}

// citations counts the citations in an answer.
func (c *call) citations(body []byte, now *explain.DryRunResult) answer.CitationReport {
	given := map[int]bool{}
	for i := range now.Rewrite.Ledger.Sources {
		given[now.Rewrite.Ledger.Sources[i].ID] = true
	}
	checker := answer.NewCitations(answer.CitationOptions{
		API: c.api, CountOnly: true, PromptMarkers: proxy.OwnMarkers(c.req),
		SourceByID: func(id int) (answer.CitedSource, bool) { return answer.CitedSource{}, id > 0 && given[id] },
		SearchResults: func() (int, []int) {
			if of := now.Rewrite.Ledger.Results; of != nil {
				return of.First, of.IDs
			}
			return 0, nil
		},
	})
	checker.JSON(body)
	return checker.Report()
}

// answer counts an answer.
func (t *Tally) answer(o *Outcome) {
	if t.report.Answers == nil {
		t.report.Answers = &Answers{}
	}
	all, a := t.report.Answers, o.Answer
	switch {
	case a.notAsked:
		all.NotAsked++
		return
	case a.Error != "":
		count(t.failed, &Cause{Code: a.Error}, o.ID)
		return
	}
	all.Answered++
	rec := a.then
	if rec == nil {
		return
	}
	all.Compared++
	all.Now.add(a.Citations, a.Unknown, a.PromptTokens, a.CompletionTokens, a.CostUSD)
	cited := 0
	for i := range rec.Sources {
		cited += rec.Sources[i].Cited
	}
	all.Before.add(cited, rec.Unknown, int64(rec.PromptTokens), int64(rec.CompletionTokens), rec.Cost)
}

func (s *AnswerSide) add(citations, unknown int, prompt, completion int64, cost float64) {
	if citations > 0 {
		s.Citing++
	}
	s.Citations, s.Unknown = s.Citations+citations, s.Unknown+unknown
	s.PromptTokens, s.CompletionTokens, s.CostUSD = s.PromptTokens+prompt, s.CompletionTokens+completion, s.CostUSD+cost
}
