package proxy

import (
	"regexp"
	"strings"
)

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
