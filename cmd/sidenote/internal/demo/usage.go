package demo

import "sidenote/cmd/sidenote/internal/billing"

// A usage is what an answer says about its tokens, in the form of each API.
type usage struct {
	input  billing.Usage
	output int
	rule   billing.Rule // "" for none
}

// estimated returns the usage of a request without a prompt cache, at four bytes per token.
func (r chatRequest) estimated(answer string) usage {
	all, _ := r.texts()
	n := len(all)/4 + 4*len(r.Messages)
	return usage{input: billing.Usage{Input: n, Plain: n}, output: r.N * (len(answer)/4 + 1)}
}

// bill returns the usage of a request; all has its messages.
func (s *Stub) bill(api billing.API, body []byte, all chatRequest, answer string) (usage, error) {
	u := all.estimated(answer)
	if s.Billing == nil {
		return u, nil
	}
	var err error
	u.rule = s.Billing.Rule()
	u.input, err = s.Billing.Bill(api, body)
	return u, err
}

// details returns the cached tokens of the input as OpenAI's APIs do.
func (u usage) details() map[string]int {
	d := map[string]int{"cached_tokens": u.input.Read}
	if u.rule == billing.Breakpoints {
		d["cache_write_tokens"] = u.input.Written
	}
	return d
}

func (u usage) chat() map[string]any {
	told := map[string]any{"prompt_tokens": u.input.Input, "completion_tokens": u.output, "total_tokens": u.input.Input + u.output}
	if u.rule != "" {
		told["prompt_tokens_details"] = u.details()
	}
	return told
}

func (u usage) responses() map[string]any {
	return map[string]any{
		"input_tokens": u.input.Input, "input_tokens_details": u.details(),
		"output_tokens": u.output, "output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": u.input.Input + u.output,
	}
}

// messages returns the usage when output tokens have been sent.
func (u usage) messages(output int) map[string]any {
	told := map[string]any{
		"input_tokens": u.input.Plain, "cache_creation_input_tokens": u.input.Written, "cache_read_input_tokens": u.input.Read, "output_tokens": output,
	}
	if u.rule == billing.CacheControl {
		told["cache_creation"] = map[string]int{
			"ephemeral_5m_input_tokens": u.input.Written - u.input.WrittenHour, "ephemeral_1h_input_tokens": u.input.WrittenHour,
		}
	}
	return told
}
