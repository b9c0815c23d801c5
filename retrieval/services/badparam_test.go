package services_test

import (
	"fmt"
	"testing"
	"time"

	"sidenote/retrieval/services"
)

// The errors of vendors and gateways name the refused parameter, each in its own form.
func TestReadNamesParameter(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   services.Refusal
	}{
		"OpenAI": {400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`,
			services.Refusal{Param: "max_tokens", Instead: "max_completion_tokens"}},
		"OpenAI, value": {400, `{"error":{"message":"Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.","param":"temperature","code":"unsupported_value"}}`,
			services.Refusal{Param: "temperature"}},
		"OpenAI, unknown argument": {400, `{"error":{"message":"Unrecognized request argument supplied: reasoning_effort","param":null}}`,
			services.Refusal{Param: "reasoning_effort"}},
		"OpenAI, responses":   {400, `{"error":{"message":"Unsupported parameter: 'reasoning.effort'","param":"reasoning.effort"}}`, services.Refusal{Param: "reasoning_effort"}},
		"Anthropic":           {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"`temperature` is deprecated for this model.\"}}", services.Refusal{Param: "temperature"}},
		"LiteLLM for Bedrock": {400, `{"error":{"message":"litellm.BadRequestError: BedrockException - {\"message\":\"The model returned the following errors: {\\\"error\\\":{\\\"message\\\":\\\"` + "`temperature`" + ` is deprecated for this model.\\\"}}\"}","type":null,"param":"None","code":"400"}}`, services.Refusal{Param: "temperature"}},
		"LiteLLM":             {400, `{"error":{"message":"litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort'], for model=x. To drop these, set drop_params"}}`, services.Refusal{Param: "reasoning_effort"}},
		"a gateway in front":  {400, `{"message":"temperature is deprecated for this model."}`, services.Refusal{Param: "temperature"}},
		"xAI":                 {400, `{"code":"Client specified an invalid argument","error":"Model grok-4 does not support parameter reasoningEffort."}`, services.Refusal{Param: "reasoning_effort"}},
		"Google":              {400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"reasoning_effort\": Cannot find field.","status":"INVALID_ARGUMENT"}}]`, services.Refusal{Param: "reasoning_effort"}},
		"Mistral":             {422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","reasoning_effort"],"msg":"Extra inputs are not permitted","input":"low"}]}}`, services.Refusal{Param: "reasoning_effort"}},
		"FastAPI":             {422, `{"detail":[{"loc":["body","seed"],"msg":"value is not a valid integer"}]}`, services.Refusal{Param: "seed"}},
		"Moonshot":            {400, `{"error":{"message":"invalid temperature: only 1 is allowed for this model","type":"invalid_request_error"}}`, services.Refusal{Param: "temperature"}},
		"Ollama":              {400, `{"error":{"message":"\"gemma3\" does not support thinking","type":"api_error","param":null}}`, services.Refusal{Param: "reasoning_effort"}},
		"vLLM":                {400, `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 4096 tokens.","param":null}}`, services.Refusal{Param: "max_tokens"}},
		"no JSON":             {400, "unknown parameter: user", services.Refusal{Param: "user"}},

		"another parameter":    {400, `{"error":{"message":"Invalid value for messages: see temperature","param":"messages[0].role"}}`, services.Refusal{}},
		"a word":               {400, `{"error":{"message":"The last message must be of the user."}}`, services.Refusal{}},
		"a part of a name":     {400, `{"error":{"message":"color_temperature_2 is unknown"}}`, services.Refusal{}},
		"nothing":              {400, `{"error":{"message":"Bad request"}}`, services.Refusal{}},
		"a rate limit":         {429, `{"error":{"message":"temperature","param":"temperature"}}`, services.Refusal{}},
		"a failure":            {500, `{"error":{"message":"temperature","param":"temperature"}}`, services.Refusal{}},
		"nothing but brackets": {400, `[[[[[[[[[["temperature"]]]]]]]]]]`, services.Refusal{}},
	} {
		got, ok := services.RefusedParam(c.status, []byte(c.body), "temperature", "max_tokens", "reasoning_effort", "seed", "user")
		if got != c.want || ok != (c.want.Param != "") {
			t.Errorf("%s: %+v, %t, want %+v", name, got, ok, c.want)
		}
	}
}

// A Memory forgets after an hour, and limits the number of models.
func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := services.Memory{Now: func() time.Time { return now }}
	if got := m.Of("a"); got != nil {
		t.Errorf("of an empty one: %v", got)
	}
	m.Add("a", services.Refusal{Param: "temperature"})
	m.Add("a", services.Refusal{Param: "temperature"})
	m.Add("a", services.Refusal{Param: "seed"})
	if got := m.Of("a"); len(got) != 2 || len(m.Of("b")) != 0 {
		t.Errorf("of a: %v, of b: %v", got, m.Of("b"))
	}
	now = now.Add(time.Minute)
	for i := range 2000 {
		m.Add(fmt.Sprint(i), services.Refusal{Param: "seed"})
	}
	known := len(m.Of("a"))
	for i := range 2000 {
		known += len(m.Of(fmt.Sprint(i)))
	}
	if known > 1024 || len(m.Of("a")) != 0 || len(m.Of("1999")) != 1 {
		t.Errorf("%d are known, of the oldest %v, of the newest %v", known, m.Of("a"), m.Of("1999"))
	}
	now = now.Add(time.Hour + time.Second)
	if got := m.Of("1999"); got != nil {
		t.Errorf("after an hour: %v", got)
	}
	m.Add("1999", services.Refusal{Param: "temperature"})
	if got := m.Of("1999"); len(got) != 1 || got[0].Param != "temperature" {
		t.Errorf("what was forgotten came back: %v", got)
	}
}
