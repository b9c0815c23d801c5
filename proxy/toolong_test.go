package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// in returns an error body in the shape of OpenAI's errors.
func in(message, kind, code string) string {
	return string(tenant.ErrorJSON(message, kind, code, ""))
}

// vllmError returns an error body in the shape that vLLM had before it took OpenAI's.
func vllmError(message string) string {
	quoted, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	return `{"object":"error","message":` + string(quoted) + `,"type":"BadRequestError","param":null,"code":400}`
}

const (
	invalid  = "invalid_request_error"
	exceeded = "context_length_exceeded"
)

// tooLongAnswers holds error answers as servers send them.
var tooLongAnswers = []struct {
	name             string
	status           int
	body             string
	limit, requested int
}{
	{"OpenAI", 400, in("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.", invalid, exceeded), 8192, 9000},
	{"OpenAI, with output", 400, in("This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in the messages, 500 in the completion). Please reduce the length of the messages or completion.", invalid, exceeded), 4097, 4203},
	{"OpenAI, completions", 400, in("This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 in your prompt; 256 for  the completion). Please reduce your prompt; or completion length.", invalid, ""), 4097, 4116},
	{"OpenAI, gpt-5", 400, in("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.", invalid, exceeded), 272000, 300000},
	{"OpenAI, without numbers", 400, in("Your input exceeds the context window of this model. Please adjust your input and try again.", invalid, exceeded), 0, 0},
	{"a code alone", 400, `{"error":{"code":"context_length_exceeded"}}`, 0, 0},
	{"Azure, without the code", 400, in("Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 509,178 tokens.", invalid, ""), 272000, 509178},
	{"vLLM 0.2", 400, vllmError("This model's maximum context length is 2048 tokens. However, you requested 2060 tokens (1548 in the messages, 512 in the completion). Please reduce the length of the messages or completion."), 2048, 2060},
	{"vLLM, messages alone", 400, vllmError("This model's maximum context length is 2048 tokens. However, you requested 2060 tokens in the messages, Please reduce the length of the messages."), 2048, 2060},
	{"vLLM 0.10", 400, in("This model's maximum context length is 2048 tokens. However, your request has 2060 input tokens. Please reduce the length of the input messages.", "BadRequestError", ""), 2048, 2060},
	{"vLLM 0.13", 400, in("'max_tokens' or 'max_completion_tokens' is too large: 800. This model's maximum context length is 2048 tokens and your request has 1459 input tokens (800 > 2048 - 1459). (parameter=max_tokens, value=800)", "BadRequestError", ""), 2048, 2259},
	{"vLLM 0.16", 400, in("This model's maximum context length is 163840 tokens. However, you requested 32000 output tokens and your prompt contains at least 131841 input tokens, for a total of at least 163841 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=131841)", "BadRequestError", ""), 163840, 163841},
	{"vLLM, passed", 400, in("You passed 12289 input tokens and requested 4096 output tokens. However, the model's context length is only 16384 tokens, resulting in a maximum input length of 12288 tokens. Please reduce the length of the input prompt.", "BadRequestError", ""), 16384, 16385},
	{"vLLM, characters", 400, in("This model's maximum context length is 32768 tokens. However, you requested 4096 output tokens and your prompt contains 200000 characters (more than 130688 characters, which is the upper bound for 28672 input tokens).", "BadRequestError", ""), 32768, 0},
	{"vLLM, engine", 400, vllmError("The decoder prompt (length 5951) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens."), 4096, 5951},
	{"vLLM, images", 400, vllmError("The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens."), 4096, 25938},
	{"vLLM, frontend in Rust", 400, in("this model's maximum context length is 4096 tokens, but the prompt contains 5000 input tokens", "BadRequestError", ""), 4096, 5000},
	{"SGLang", 400, vllmError("The input (265330 tokens) is longer than the model's context length (262144 tokens)."), 262144, 265330},
	{"SGLang, equal", 400, vllmError("The input (4096 tokens) is longer than the model's context length (4096 tokens)."), 0, 0},
	{"SGLang, with output", 400, vllmError("Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 135000 tokens: 130000 tokens from the input messages and 5000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit."), 131072, 135000},
	{"SGLang, another shape", 400, `{"detail":"The input (129 tokens) is longer than the model's context length (128 tokens)."}`, 128, 129},
	{"TGI", 422, `{"error":"Input validation error: ` + "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`" + `","error_type":"validation"}`, 4096, 5020},
	{"TGI, input", 422, `{"error":"Input validation error: ` + "`inputs` must have less than 1024 tokens. Given: 1567" + `","error_type":"validation"}`, 1024, 1567},
	{"llama.cpp", 400, `{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4390,"n_ctx":4096}}`, 4096, 4390},
	{"llama.cpp, numbers in fields", 400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`, 8192, 14429},
	{"llama.cpp, 500", 500, `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}`, 256, 1407},
	{"llama.cpp, shared cache", 500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, 0, 0},
	{"llama.cpp, wrapped", 400, `{"detail":"{\"error\":{\"code\":400,\"message\":\"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it\",\"type\":\"exceed_context_size_error\"}}"}`, 8192, 9412},
	{"llama-cpp-python", 400, in("Requested tokens (2285) exceed context window of 2048", invalid, ""), 2048, 2285},
	{"Ollama", 400, `{"error":"prompt too long; exceeded max context length by 4096 tokens (ref: 1)"}`, 0, 0},
	{"Ollama, input", 400, in("the input length exceeds the context length", "api_error", ""), 0, 0},
	{"LM Studio", 400, `{"error":"Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."}`, 7866, 10136},
	{"LM Studio 0.3.30", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}`, 4096, 13055},
	{"Mistral", 400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}`, 32768, 40000},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_1"}`, 200000, 210000},
	{"Anthropic, with output", 400, in("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again", invalid, ""), 200000, 210000},
	{"Anthropic behind LiteLLM", 400, `{"error":{"message":"litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError - {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 209303 tokens > 200000 maximum\"}}\nReceived Model Group=claude","type":null,"param":null,"code":"400"}}`, 200000, 209303},
	{"Bedrock", 400, `{"message":"Input is too long for requested model."}`, 0, 0},
	{"Gemini", 400, `[{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1048576, 1100000},
	{"Gemini 2.5", 400, `[{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1048576, 0},
	{"DeepSeek", 400, in("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.", invalid, "invalid_request_error"), 65536, 70000},
	{"Groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 0, 0},
	{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 65536 tokens. However, you requested about 92674 tokens (92174 of text input, 500 in the output). Please reduce the length of either one.","code":400}}`, 65536, 92674},
	{"OpenRouter, input", 400, in("Input length 265330 exceeds the maximum allowed input length of 262144 tokens.", "", ""), 262144, 265330},
	{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, 131072, 537812},
	{"Moonshot", 400, in("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", invalid, ""), 262144, 300000},
	{"MiniMax", 400, in("invalid params, context window exceeds limit (2013)", "", ""), 0, 0},
	{"DashScope", 400, in("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", invalid, ""), 129024, 0},
	{"numbers that contradict", 400, in("This model's maximum context length is 9000 tokens. However, your messages resulted in 8192 tokens.", invalid, exceeded), 0, 0},
	{"numbers beyond belief", 400, in("This model's maximum context length is 8192 tokens. However, your messages resulted in 99999999999999999999999 tokens.", invalid, exceeded), 0, 0},
	{"no limit", 400, `{"error":{"type":"exceed_context_size_error","n_prompt_tokens":5,"n_ctx":0}}`, 0, 0},
	{"a long message", 400, in(strings.Repeat("x", 9000), invalid, exceeded), 0, 0},
	{"a status of its own", 413, in("", invalid, exceeded), 0, 0},
}

func TestRead(t *testing.T) {
	for _, c := range tooLongAnswers {
		got, ok := proxy.ReadTooLong(c.status, []byte(c.body))
		if !ok || got.Limit != c.limit || got.Requested != c.requested {
			t.Errorf("%s: got %d < %d, %v, want %d < %d", c.name, got.Limit, got.Requested, ok, c.limit, c.requested)
		}
	}
}

// Errors that fewer sources would not avoid, or that would pass with time, do not count.
func TestReadNot(t *testing.T) {
	long := tooLongAnswers[0].body
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"a rate limit":                {429, in("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.", "tokens", "rate_limit_exceeded")},
		"Groq's rate limit":           {413, in("Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.", "tokens", "rate_limit_exceeded")},
		"a rate limit that sounds so": {400, in("ThrottlingException: prompt is too long for this minute, please wait.", "", "")},
		"nginx":                       {413, "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>prompt is too long</body></html>"},
		"too many bytes":              {413, in("Request exceeds the maximum allowed number of bytes.", "request_too_large", "")},
		"output beyond the model":     {400, in("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.", invalid, "invalid_value")},
		"output that fills vLLM":      {400, in("'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 4096 tokens and your request has 14 input tokens (4096 > 4096 - 14).", "BadRequestError", "")},
		"output that fills TGI":       {422, `{"error":"` + "`inputs` tokens + `max_new_tokens` must be <= 32769. Given: 30 `inputs` tokens and 999999999 `max_new_tokens`" + `"}`},
		"output that fills others":    {400, in("This endpoint's maximum context length is 262144 tokens. However, you requested about 266324 tokens (4180 of text input, 262144 in the output).", "", exceeded)},
		"another bad request":         {400, in("Invalid value for 'messages[0].content': expected a string.", invalid, "invalid_type")},
		"a long string":               {400, in("Invalid 'user': string too long. Expected a string with maximum length 64.", invalid, "string_above_max_length")},
		"a success":                   {200, long},
		"a broken server":             {500, long},
		"a gateway":                   {502, long},
		"no JSON":                     {400, "prompt is too long"},
		"cut JSON":                    {400, long[:len(long)-1]},
		"nothing":                     {400, ""},
		"null":                        {400, "null"},
		"no words":                    {400, `{"error":{"code":400}}`},
		"another field":               {400, `{"prompt":"prompt is too long","error":{"message":"no"}}`},
		"more than is searched":       {400, in(strings.Repeat("x", 4<<10)+" prompt is too long", invalid, "")},
		"more than is read":           {400, strings.Repeat(" ", 64<<10) + long},
	} {
		if got, ok := proxy.ReadTooLong(c.status, []byte(c.body)); ok || got != (proxy.TooLongCounts{}) {
			t.Errorf("%s: got %d < %d, %v", name, got.Limit, got.Requested, ok)
		}
	}
}

// No answer makes ReadTooLong panic or return numbers that cannot be right.
func FuzzRead(f *testing.F) {
	for _, c := range tooLongAnswers {
		f.Add(c.status, []byte(c.body))
	}
	f.Add(400, []byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		counts, ok := proxy.ReadTooLong(status, body)
		limit, requested := counts.Limit, counts.Requested
		got := fmt.Sprintf("%d < %d, %v", limit, requested, ok)
		if !ok && (limit != 0 || requested != 0) || limit < 0 || limit > 100_000_000 || requested > 100_000_000 {
			t.Errorf("got %s", got)
		}
		if requested != 0 && (limit == 0 || requested <= limit) {
			t.Errorf("got %s", got)
		}
	})
}
