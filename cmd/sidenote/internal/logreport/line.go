package logreport

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"sidenote/proxy/route"
)

// A line holds the fields that are read from a request's log line; see the page of the log.
type line struct {
	Time          time.Time `json:"time"` // the end of the answer
	Message       string    `json:"msg"`
	ID            string    `json:"id"`
	Tenant        string    `json:"tenant"`
	Policy        string    `json:"policy"`
	Route         string    `json:"route"`
	Model         string    `json:"model"` // row of the model table
	Status        int       `json:"status"`
	Outcome       string    `json:"outcome"`
	Reason        string    `json:"reason"`
	Sources       int64     `json:"sources"`
	ContextTokens int64     `json:"context_tokens"`
	EarlierTokens int64     `json:"earlier_tokens"`
	Cache         string    `json:"cache"`
	Knowledge     []string  `json:"knowledge"`
	Truncated     bool      `json:"truncated"`

	Overhead  float64 `json:"overhead_ms"`
	Retrieval float64 `json:"retrieval_ms"`
	FirstByte float64 `json:"ttfb_ms"`
	Total     float64 `json:"duration_ms"`

	Usage        string  `json:"usage"`
	Input        int64   `json:"input_tokens"`
	CachedInput  int64   `json:"cached_input_tokens"`
	CacheWrite   int64   `json:"cache_write_tokens"`
	CacheWrite1h int64   `json:"cache_write_1h_tokens"`
	Tier         string  `json:"service_tier"`
	Output       int64   `json:"output_tokens"`
	Reasoning    int64   `json:"reasoning_tokens"`
	Charged      float64 `json:"charged_usd"`
	CacheMiss    string  `json:"cache_miss"` // the upstream's diagnosis; "" if it was not asked

	// The part of the usage that the added tokens have.
	ContextInput        int64    `json:"context_input_tokens"`
	ContextCached       int64    `json:"context_cached_tokens"`
	ContextCacheWrite   int64    `json:"context_cache_write_tokens"`
	ContextCacheWrite1h int64    `json:"context_cache_write_1h_tokens"`
	ContextUSD          *float64 `json:"context_usd"` // nil if it was not priced

	Tools *struct {
		Rounds int64 `json:"rounds"`
		Calls  int64 `json:"calls"`
		Tokens int64 `json:"tokens"`
	} `json:"tools"`
	Stages *struct {
		Called []stageLine `json:"called"`
	} `json:"stages"`
}

type stageLine struct {
	Name    string  `json:"stage"`
	Outcome string  `json:"outcome"`
	Took    float64 `json:"duration_ms"`
	Input   int64   `json:"input_tokens"`
	Output  int64   `json:"output_tokens"`
}

// A kind says what a line is.
type kind int

const (
	request kind = iota
	other        // JSON, but not a request
	broken       // not JSON, truncated, or a request with impossible values
)

// idBytes is the length of a request's id, a ULID.
const idBytes = 26

// parse parses a line. It skips a prefix that a collector may have added, such as a time and a
// name.
func parse(text []byte) (*line, kind) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		at := bytes.Index(text, []byte(`{"time":`))
		if at < 0 {
			return nil, broken
		}
		text = text[at:]
	}
	l := new(line)
	err := json.Unmarshal(text, l)
	switch {
	case err == nil && (l.Message != "request" || l.Outcome == "" || len(l.ID) != idBytes):
		return nil, other
	case err == nil && !l.plausible():
		return nil, broken
	case err != nil && json.Valid(text) && !bytes.Contains(text, []byte(`"msg":"request"`)):
		return nil, other // its fields have other types
	case err != nil:
		return nil, broken
	}
	return l, request
}

// The largest plausible numbers of a line; with larger ones it is not Sidenote's.
const (
	maxTokens = 1e9
	maxMS     = 1e10
	maxUSD    = 1e7
)

func (l *line) plausible() bool {
	tokens := []int64{l.Sources, l.ContextTokens, l.EarlierTokens, l.Input, l.CachedInput, l.CacheWrite, l.CacheWrite1h, l.Output, l.Reasoning, l.ContextInput, l.ContextCached, l.ContextCacheWrite, l.ContextCacheWrite1h}
	times := []float64{l.Overhead, l.Retrieval, l.FirstByte, l.Total}
	if l.Tools != nil {
		tokens = append(tokens, l.Tools.Rounds, l.Tools.Calls, l.Tools.Tokens)
	}
	if l.Stages != nil {
		for i := range l.Stages.Called {
			s := &l.Stages.Called[i]
			tokens, times = append(tokens, s.Input, s.Output), append(times, s.Took)
		}
	}
	for _, n := range tokens {
		if n < 0 || n > maxTokens {
			return false
		}
	}
	for _, ms := range times {
		if ms < 0 || ms > maxMS {
			return false
		}
	}
	if l.ContextCached+l.ContextCacheWrite > l.ContextInput || l.ContextCacheWrite1h > l.ContextCacheWrite || l.ContextInput > l.Input {
		return false
	}
	if l.ContextUSD != nil && (*l.ContextUSD < 0 || *l.ContextUSD > maxUSD) {
		return false
	}
	return l.Time.Year() > 1970 && l.Time.Year() < 10_000 && l.CachedInput+l.CacheWrite <= l.Input && l.CacheWrite1h <= l.CacheWrite && l.Charged >= 0 && l.Charged < maxUSD
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// chat reports whether the request is a chat, of whichever API.
func (l *line) chat() bool { return route.Kind(l.Route).Answers() }

// shadow reports whether the rewrite was only recorded.
func (l *line) shadow() bool { return l.Outcome == "shadow" }

// failed reports whether the client got an error or an incomplete answer.
func (l *line) failed() bool { return l.Status >= 400 || l.Truncated }

// injected reports whether something was added to the prompt that was sent.
func (l *line) injected() bool {
	return l.Outcome == "injected" || (l.Outcome == "tools" || l.Outcome == "staged") && l.ContextTokens > 0
}

// unanswered reports whether the search found nothing.
func (l *line) unanswered() bool { return l.Reason == "no-match" || l.Reason == "irrelevant" }

// searched reports whether a chat's question was searched for.
func (l *line) searched() bool {
	switch l.Reason {
	case "no-query", "no-query-terms", "no-knowledge", "planner-skip", "background":
		return false
	}
	return l.chat() && (len(l.Knowledge) > 0 || l.unanswered() || l.ContextTokens > 0)
}
