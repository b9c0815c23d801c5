package proxy

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// maxTooLongBody is the largest error answer, in bytes, that is read.
const maxTooLongBody = 64 << 10

const (
	// maxErrorText is how many bytes of its text are searched: searching 64 KiB would take a tenth
	// of a second, and the longest real texts have 2 KiB.
	maxErrorText = 4 << 10
	// maxWindow is the largest number of tokens that is accepted.
	maxWindow = 100_000_000
)

// TooLongCounts are the numbers of tokens in an error answer. One that is missing or contradicts
// the other is 0.
type TooLongCounts struct {
	Limit     int // the context length, or the most input tokens if the upstream limits those
	Requested int // tokens of the input, plus the output if the limit is for both
}

// mayBeTooLong reports whether an answer with that status can mean that the request is too long.
func mayBeTooLong(status int) bool { return phrasesFor(status) != nil }

// ReadTooLong reports whether an upstream's error answer says that the request exceeds the model's
// context, so that fewer sources would help. Errors about rate limits, too many bytes, or an
// output that would fill the context alone do not count. body must be decompressed.
func ReadTooLong(status int, body []byte) (c TooLongCounts, ok bool) {
	if len(body) > maxTooLongBody {
		return c, false
	}
	said := phrasesFor(status)
	if said == nil {
		return c, false
	}
	if !json.Valid(body) {
		return c, false
	}
	var e serverError
	e.read(body, 0)
	if !said.MatchString(e.text) || rateLimit.MatchString(e.text) {
		return c, false
	}
	limit, requested, output := e.limit, e.requested, 0
	if limit == 0 {
		limit, requested, output = tokensOfToolong(e.text)
	}
	if limit > 0 && output >= limit {
		return c, false
	}
	return plausible(limit, requested), true
}

// phrasesFor returns the phrases that report a request that is too long with that status, nil if
// no server uses that status for it.
func phrasesFor(status int) *regexp.Regexp {
	switch status {
	case 400, 413, 422:
		return overflowPhrases
	case 500:
		return overflowPhrases500
	}
	return nil
}

// plausible returns the numbers, or zeros if they cannot be right.
func plausible(limit, requested int) TooLongCounts {
	if limit <= 0 || limit > maxWindow || requested != 0 && (requested <= limit || requested > maxWindow) {
		return TooLongCounts{}
	}
	return TooLongCounts{limit, requested}
}

// A serverError holds the texts and numbers of an error answer of any shape.
type serverError struct {
	text             string // code, type and message, a line each; maxErrorText bytes at most
	limit, requested int    // of the fields that llama.cpp has for them; else 0
}

// errorFields are the fields of an error object. Some servers send codes as
// numbers.
type errorFields struct {
	Message   json.RawMessage `json:"message"`
	Code      json.RawMessage `json:"code"`
	Type      json.RawMessage `json:"type"`
	Detail    json.RawMessage `json:"detail"`
	Error     json.RawMessage `json:"error"`
	Requested json.RawMessage `json:"n_prompt_tokens"` // llama.cpp
	Limit     json.RawMessage `json:"n_ctx"`
}

// read collects the texts and numbers in value: {"error":{…}}, {"error":"text"},
// {"message":…}, {"detail":…}, or the first member of a list of them. Real errors are
// nested three deep at most.
func (r *serverError) read(value json.RawMessage, depth int) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || depth > 4 {
		return
	}
	switch value[0] {
	case '"':
		var text string
		if json.Unmarshal(value, &text) == nil {
			r.text += text + "\n"
			r.text = r.text[:min(len(r.text), maxErrorText)]
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) > 0 {
			r.read(list[0], depth+1)
		}
	case '{':
		var f errorFields
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

// tokensOfToolong returns the numbers of tokens in a message; a number that is missing is 0.
func tokensOfToolong(text string) (limit, requested, output int) {
	limit, output = first(limitNumber, text), first(outputNumber, text)
	if requested = first(totalNumber, text); requested == 0 {
		if input := first(inputNumber, text); input > 0 {
			requested = input + output
		}
	}
	return limit, requested, output
}

// first returns the number in re's first match, from the first group that matched.
func first(re *regexp.Regexp, text string) int {
	groups := re.FindStringSubmatch(text)
	for i := 1; i < len(groups); i++ {
		if groups[i] != "" {
			return number(groups[i])
		}
	}
	return 0
}

// number parses digits, with or without thousands separators. Text that is not a number is 0. Only
// the first 15 digits are read, which is still far above maxWindow.
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
