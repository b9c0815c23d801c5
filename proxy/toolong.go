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

// phrases compiles alternatives, ignoring case. N in them stands for a number.
func phrases(alternatives ...string) *regexp.Regexp {
	const n = `(\d{1,3}(?:[,_]\d{3})+|\d+)`
	return regexp.MustCompile("(?i)" + strings.ReplaceAll(strings.Join(alternatives, "|"), "N", n))
}

// The messages of servers about a request that is too long, from their sources and from reports of
// users. Few are documented, so a new version of a server may need a new line.
var (
	overflowPhrases = phrases(
		`context_length_exceeded|context_window_exceeded`, // OpenAI, Azure, Groq, DeepSeek; z.ai
		`exceed_context_size_error`,                       // llama.cpp
		`ContextWindowExceededError`,                      // LiteLLM
		`maximum context length is N tokens`,              // OpenAI, vLLM, OpenRouter, DeepSeek
		`input tokens exceed the configured limit`,        // OpenAI, Azure
		`(?:input|prompt|request|messages|token count)\b[^.]{0,80}\bexceeds? [^.]{0,30}context (?:length|window|size)`, // OpenAI, llama.cpp, SGLang
		`requested tokens \(N\) exceed context window`,                                                                 // llama-cpp-python
		`context size has been exceeded`,                                                                               // llama.cpp, LM Studio
		`longer than the (?:model.?s context|maximum model) length`,                                                    // SGLang, Together, vLLM
		`too long to fit into the model`,                                                                               // vLLM
		`context length (?:is|of) only N tokens`,                                                                       // vLLM, LM Studio
		`greater than the context length`,                                                                              // LM Studio
		`.inputs. (?:tokens \+ .max_new_tokens. must be <=|must have less than) N`,                                     // TGI
		`too large for model with N maximum context length`,                                                            // Mistral
		`prompt (?:is )?too long`,                                                                                      // Anthropic, Ollama
		`exceed context limit`,                                                                                         // Anthropic
		`input is too long for requested model`,                                                                        // Bedrock
		`input token count[^.]{0,30} exceeds the maximum number of tokens`,                                             // Gemini
		`maximum prompt length is N but`,                                                                               // xAI
		`exceeded model token limit`,                                                                                   // Moonshot
		`context window exceeds limit`,                                                                                 // MiniMax
		`exceeds the maximum allowed input length`,                                                                     // OpenRouter
		`range of input length should be`,                                                                              // DashScope
		`reduce the length of the messages`,                                                                            // Groq
	)
	// overflowPhrases500 are the messages that llama.cpp sends with status 500.
	overflowPhrases500 = phrases(`exceed_context_size_error`, `exceeds the available context size`, `context size has been exceeded`)

	// rateLimit matches rate limits, whose messages may look the same but which end within a
	// minute.
	rateLimit = phrases(`rate.?limit`, `tokens per (?:min|day|hour)`, `too many requests`, `throttl`)

	limitNumber = phrases(
		`maximum context length(?: is| of|:)? \(?N`,
		`context length(?: is| of)?(?: only)? \(?N`,
		`context (?:size|window)(?: is| of)? \(?N`,
		`with N maximum context`,
		`must be <= N`, `must have less than N tokens`,
		`tokens > N maximum`,
		`context limit: \d+ \+ \d+ > N`,
		`tokens allowed \(?N`,
		`configured limit of N`,
		`maximum (?:model|prompt) length (?:is|of) N`,
		`token limit: N`,
		`n_ctx: N`,
		`allowed input length of N`,
		`input length should be \[\d+, N\]`,
	)
	totalNumber = phrases(
		`resulted in N tokens`,
		`requested(?: about| a total of)? N tokens`,
		`total of(?: at least)? N tokens`,
		`requested tokens \(N\)`, `\(requested: N\)`,
		`(?:request|input) \(N tokens\)`,
		`request is N tokens`,
		`(?:prompt|request) contains N tokens`,
		`input token count \(N\)`,
		`prompt is too long: N`,
		`input length \(?N\)? exceeds`,
		`\((?:total )?length N\)`,
		`keep the first N tokens`,
		`n_keep: N`,
		`must have less than \d+ tokens\. Given: N`,
	)
	inputNumber = phrases(
		`(?:has|contains|passed)(?: at least)? N input tokens`,
		`Given: N .inputs. tokens`,
		`context limit: N \+`,
	)
	outputNumber = phrases(
		`requested N output tokens`,
		`N(?: tokens)? (?:in|for)\s+the (?:completion|output)`,
		`and N .max_new_tokens.`,
		`is too large: N`,
		`context limit: \d+ \+ N >`,
	)
)
