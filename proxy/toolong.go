package proxy

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

const (
	// maxTooLong bounds the error answer that is looked into, in bytes.
	maxTooLong = 64 << 10
	// maxSaid bounds what of its words is searched, in bytes: all of 64 KiB would
	// take a tenth of a second, and the longest real ones have 2 KiB.
	maxSaid = 4 << 10
	// maxWindow is the largest number of tokens that is believed.
	maxWindow = 100_000_000
)

// A tooLongError is what an upstream says of a request that is longer than its
// model's context, in tokens. What it does not say, or says in numbers that
// contradict each other, is 0.
type tooLongError struct {
	limit     int // of the context, or of the input where the upstream bounds that
	requested int // input, and output where the limit is of both
}

// tooLong reports whether an upstream's error answer says that the request is
// longer than the model's context, so that fewer sources would help. Rate
// limits and too many bytes are none, nor is an output that fills the context
// alone. body is plain, not compressed.
func tooLong(status int, body []byte) (t tooLongError, ok bool) {
	if len(body) > maxTooLong {
		return t, false
	}
	said := saidWith(status)
	if said == nil {
		return t, false
	}
	e, ok := readTooLong(body)
	if !ok || !said.MatchString(e.text) || rateLimit.MatchString(e.text) {
		return t, false
	}
	limit, requested, output := e.limit, e.requested, 0
	if limit == 0 {
		limit, requested, output = tokensOf(e.text)
	}
	if limit > 0 && output >= limit {
		return t, false
	}
	return believe(limit, requested), true
}

// saidWith returns the words that say it in an answer of that status, nil if none do.
func saidWith(status int) *regexp.Regexp {
	switch status {
	case 400, 413, 422:
		return overflowPhrases
	case 500:
		return overflowPhrases500
	}
	return nil
}

// believe drops numbers that cannot be.
func believe(limit, requested int) tooLongError {
	if limit <= 0 || limit > maxWindow || requested != 0 && (requested <= limit || requested > maxWindow) {
		return tooLongError{}
	}
	return tooLongError{limit, requested}
}

// A refusal is an error answer with its shape taken off.
type refusal struct {
	text             string // code, type and message, a line each, at most maxSaid
	limit, requested int    // where they stand in fields of their own
}

// refusalFields are the fields of an error object. Codes are numbers with some.
type refusalFields struct {
	Message   json.RawMessage `json:"message"`
	Code      json.RawMessage `json:"code"`
	Type      json.RawMessage `json:"type"`
	Detail    json.RawMessage `json:"detail"`
	Error     json.RawMessage `json:"error"`
	Requested json.RawMessage `json:"n_prompt_tokens"` // llama.cpp
	Limit     json.RawMessage `json:"n_ctx"`
}

// readTooLong reads {"error":{…}}, {"error":"text"}, {"message":…}, {"detail":…}
// and lists of them; ok is false for what is not JSON.
func readTooLong(body []byte) (r refusal, ok bool) {
	if !json.Valid(body) {
		return r, false
	}
	r.read(body, 0)
	return r, true
}

// read collects what value says; real errors are nested three deep at most.
func (r *refusal) read(value json.RawMessage, depth int) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || depth > 4 {
		return
	}
	switch value[0] {
	case '"':
		var text string
		if json.Unmarshal(value, &text) == nil {
			r.text += text + "\n"
			r.text = r.text[:min(len(r.text), maxSaid)]
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) > 0 {
			r.read(list[0], depth+1)
		}
	case '{':
		var f refusalFields
		if json.Unmarshal(value, &f) != nil {
			return
		}
		for _, field := range []json.RawMessage{f.Code, f.Type, f.Message, f.Detail, f.Error} {
			r.read(field, depth+1)
		}
		if limit := number(string(f.Limit)); limit > 0 {
			r.limit, r.requested = limit, number(string(f.Requested))
		}
	}
}

// tokensOf finds the numbers in a message, each 0 where there is none.
func tokensOf(text string) (limit, requested, output int) {
	limit, output = first(limitNumber, text), first(outputNumber, text)
	if requested = first(totalNumber, text); requested == 0 {
		if input := first(inputNumber, text); input > 0 {
			requested = input + output
		}
	}
	return limit, requested, output
}

// first returns the number in re's first match, in whichever group it stands.
func first(re *regexp.Regexp, text string) int {
	groups := re.FindStringSubmatch(text)
	for i := 1; i < len(groups); i++ {
		if groups[i] != "" {
			return number(groups[i])
		}
	}
	return 0
}

// number reads digits, with or without separators of thousands. What is beyond
// belief comes as a number beyond belief, what is no number as 0.
func number(digits string) int {
	digits = strings.NewReplacer(",", "", "_", "").Replace(digits)
	if len(digits) > 15 {
		digits = digits[:15]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return max(n, 0)
}
