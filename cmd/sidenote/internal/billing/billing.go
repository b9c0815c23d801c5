// Package billing computes what a request costs under the rules by which vendors bill their prompt
// caches. It reads request bodies only; it knows nothing of Sidenote's edits.
//
// The rules are those of developers.openai.com/api/docs/guides/prompt-caching, of
// platform.claude.com/docs/en/build-with-claude/prompt-caching and of
// ai.google.dev/gemini-api/docs/caching. Tokens of every model are counted by o200k_base, each
// message, part and tool by itself.
package billing

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"sidenote/rewrite/tokens"
)

// A Rule names the way in which an upstream bills its prompt cache.
type Rule string

// The rules.
const (
	Breakpoints  Rule = "openai-5.6" // OpenAI from GPT-5.6 on: at breakpoints only
	Prefix       Rule = "prefix"     // OpenAI up to GPT-5.5, DeepSeek, vLLM: the longest common prefix
	CacheControl Rule = "anthropic"  // marks of the Messages API
	Implicit     Rule = "gemini"     // the longest common prefix, from 2,048 tokens on
)

// Rules returns the rules.
func Rules() []Rule { return []Rule{Breakpoints, Prefix, CacheControl, Implicit} }

// UnmarshalText sets the rule to the one with that name.
func (r *Rule) UnmarshalText(name []byte) error {
	if !slices.Contains(Rules(), Rule(name)) {
		return fmt.Errorf("%q is not a billing rule; write %s, %s, %s or %s", name, Breakpoints, Prefix, CacheControl, Implicit)
	}
	*r = Rule(name)
	return nil
}

// Rates are prices in units of one uncached input token.
type Rates struct {
	Read, Write, WriteHour float64
}

// Usage is the bill of a request, in tokens. Input is the sum of Read, Written and Plain.
type Usage struct {
	Input       int     `json:"input"`
	Read        int     `json:"read"`
	Written     int     `json:"written"`      // 0 where writes are free
	WrittenHour int     `json:"written_hour"` // of Written: kept for an hour
	Plain       int     `json:"plain"`
	Cost        float64 `json:"cost"` // in units of one uncached input token
}

// split returns the usage of a request of which read tokens were cached and written are now.
func (r Rates) split(input, read, written, writtenHour int) Usage {
	u := Usage{Input: input, Read: read, Written: written, WrittenHour: writtenHour, Plain: input - read - written}
	u.Cost = float64(u.Plain) + r.Read*float64(read) + r.Write*float64(written-writtenHour) + r.WriteHour*float64(writtenHour)
	return u
}

func (u *Usage) add(other Usage) {
	u.Input += other.Input
	u.Read += other.Read
	u.Written += other.Written
	u.WrittenHour += other.WrittenHour
	u.Plain += other.Plain
	u.Cost += other.Cost
}

// Totals are the sums of all requests that a Meter billed.
type Totals struct {
	Rule     Rule `json:"rule"`
	Requests int  `json:"requests"`
	Refused  int  `json:"refused"`
	Usage
}

// A RefusedError says why an upstream answers a request with 400.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// A cache bills prompts by one rule.
type cache interface {
	// bill returns the usage of p at a time, and remembers what the upstream would. The error is a
	// *RefusedError.
	bill(p *prompt, now time.Time) (Usage, error)
}

// A Meter bills requests as an upstream does whose prompt cache is empty at first. Its memory is
// bounded: what was unused for longest is forgotten. It is safe for concurrent use.
type Meter struct {
	rule    Rule
	now     func() time.Time
	log     io.Writer
	counter tokens.Counter

	mu     sync.Mutex
	cache  cache
	totals Totals
}

// NewMeter returns a Meter that takes the time from now, and writes a line about each request to
// log, which may be nil.
func NewMeter(rule Rule, now func() time.Time, log io.Writer) *Meter {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	m := &Meter{rule: rule, now: now, log: log, counter: counter, totals: Totals{Rule: rule}}
	switch rule {
	case Breakpoints:
		m.cache = &breakpoints{rates: Rates{Read: .1, Write: 1.25}, entries: newEntries()}
	case CacheControl:
		m.cache = &marks{rates: Rates{Read: .1, Write: 1.25, WriteHour: 2}, entries: newEntries()}
	case Prefix:
		// OpenAI's models up to 5.5 read at .1 to .5.
		m.cache = &prefixes{rates: Rates{Read: .25}, minimum: 1024, step: 128, counter: counter}
	case Implicit:
		m.cache = &prefixes{rates: Rates{Read: .1}, minimum: 2048, step: 1, counter: counter}
	default:
		panic(fmt.Sprintf("BUG: no billing rule %q", rule))
	}
	return m
}

// Rule returns the rule of the meter.
func (m *Meter) Rule() Rule { return m.rule }

// Bill bills the request with that body. A *RefusedError is the upstream's answer 400; any other
// error says that the body is not a request of the API.
func (m *Meter) Bill(api API, body []byte) (Usage, error) {
	p, err := parse(api, body, m.counter)
	if err != nil {
		return Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.cache.bill(p, m.now())
	if err != nil {
		m.totals.Refused++
		m.logf("%s  refused: %v\n", p.model, err)
		return Usage{}, err
	}
	m.totals.Requests++
	m.totals.add(u)
	m.logf("%s  input %d  read %d  written %d  cost %.0f\n", p.model, u.Input, u.Read, u.Written, u.Cost)
	return u, nil
}

func (m *Meter) logf(format string, args ...any) {
	if m.log != nil {
		fmt.Fprintf(m.log, format, args...)
	}
}

// Totals returns the sums of all requests until now, the cost in hundredths.
func (m *Meter) Totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.totals
	t.Cost = math.Round(100*t.Cost) / 100
	return t
}

// String returns the totals as JSON in a line.
func (t Totals) String() string {
	line, err := json.Marshal(t)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(line)
}
