package tokens

// anthropic returns Anthropic's models (platform.claude.com/docs/en/models). Routers
// write the version with a dot, Anthropic with a hyphen.
func anthropic() []row {
	var (
		standard = claude(limits{1568, 1568})
		high     = claude(limits{2576, 4784}) // since 4.7
	)
	return estimated([]row{
		{"claude-3-7* claude-3.7*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard}},
		{"claude-3-5* claude-3.5*", Model{Window: 200_000, MaxOutput: 8_192, Images: standard}},
		{"claude-3*", Model{Window: 200_000, MaxOutput: 4_096, Images: standard}},
		{"claude-opus-4-8* claude-opus-4.8* claude-opus-4-7* claude-opus-4.7*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: high}},
		{"claude-opus-4-6* claude-opus-4.6*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: standard}},
		{"claude-opus-4-5* claude-opus-4.5*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard}},
		{"claude-opus-4*", Model{Window: 200_000, MaxOutput: 32_000, Images: standard}},
		{"claude-sonnet-4-6* claude-sonnet-4.6*", Model{Window: 1_000_000, MaxOutput: 64_000, Images: standard}},
		{"claude-sonnet-4* claude-haiku-4*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard}},
		{"claude-opus-5* claude-sonnet-5* claude-haiku-5* claude-fable-5*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: high}},
		{"claude-2* claude-instant*", Model{Window: 100_000, MaxOutput: 4_096}},
		{"claude*", Model{Images: high}},
	})
}

// families returns the other models without a tokenizer of OpenAI's. o200k is the
// nearest to most of them. Windows are those of the model cards; a server may give them
// less.
func families() []row {
	return estimated([]row{
		// ai.google.dev/gemini-api/docs/models; the window is that of the input.
		{"gemini-1.5-pro*", Model{Window: 2_097_152, MaxOutput: 8_192}},
		{"gemini-1.5* gemini-2.0-flash-exp-image* gemini-2.0-flash-preview-image* gemini-2.0-flash*", Model{Window: 1_048_576, MaxOutput: 8_192}},
		{"gemini-2.5-flash-image* gemini-3-pro-image* gemini-3.1-flash-image* gemini-3.1-flash-lite-image*", Model{}},
		{"gemini-2.5* gemini-3*", Model{Window: 1_048_576, MaxOutput: 65_535}},
		{"gemini-4*", Model{Window: 1_048_576}},
		{"gemma-2* gemma2*", Model{Window: 8_192}},
		{"gemma-3* gemma3*", Model{Window: 32_768}},
		{"gemma gemma-1* gemma-7b* codegemma*", Model{}},

		{"llama-3.1* llama-3.2* llama-3.3* llama3.1* llama3.2* llama3.3*", Model{Window: 131_072}},
		{"meta-llama-3.1* meta-llama-3.2* meta-llama-3.3*", Model{Window: 131_072}},
		{"llama3-1-* llama3-2-* llama3-3-* llama-v3p1* llama-v3p2* llama-v3p3*", Model{Window: 131_072}},
		{"llama-3-8b* llama-3-70b* meta-llama-3-* llama3-8b* llama3-70b* llama3 llama-v3-*", Model{Window: 8_192}},
		{"llama-2-* llama2* llama-v2-*", Model{Window: 4_096}},

		{"qwen2.5* qwq*", Model{Window: 32_768}},
		{"qwen3-coder* qwen3-next* qwen3-max*", Model{Window: 262_144}},

		{"mixtral-8x7b-instruct* mixtral-8x7b* open-mixtral-8x7b*", Model{Window: 32_768}},
		{"mixtral-8x22b* open-mixtral-8x22b*", Model{Window: 65_536}},
		{"mistral-7b-instruct-v0 mistral-7b-instruct-v0.1* mistral-7b-instruct-v0.2*", Model{}},
		{"mistral-large-2402* mistral-small-24*", Model{Window: 32_768}},
		{"mistral-large* mistral-nemo* open-mistral-nemo* ministral* pixtral*", Model{Window: 131_072}},

		{"deepseek-v4*", Model{Window: 1_000_000}},
		{"deepseek-v3* deepseek-r1*", Model{Window: 131_072}},

		{"grok-2-vision*", Model{Window: 32_768}},
		{"grok-2* grok-3*", Model{Window: 131_072}},
		{"grok-4* grok-code*", Model{Window: 256_000}},

		{"phi-3.5* phi3.5* phi-4-mini* phi4-mini phi-4-multimodal*", Model{Window: 131_072}},
		{"phi-4-reasoning* phi4-reasoning", Model{Window: 32_768}},
		{"phi-4* phi4*", Model{Window: 16_384}},

		{"command-a*", Model{Window: 256_000, MaxOutput: 8_000}},
		{"command-r*", Model{Window: 128_000, MaxOutput: 4_000}},

		{"nova-micro*", Model{Window: 128_000, MaxOutput: 5_000}},
		{"nova-lite* nova-pro*", Model{Window: 300_000, MaxOutput: 5_000}},

		{"kimi-k2.5*", Model{Window: 262_144}},
		{"kimi-k2*", Model{Window: 131_072}},
		{"glm-4.5v*", Model{Window: 65_536}},
		{"glm-4.5* glm-4.6v*", Model{Window: 131_072}},
		{"glm-4.6* glm-4.7*", Model{Window: 200_000}},

		// Families of several sizes.
		{"gemini* gemma* medgemma* llama* meta-llama* codellama* qwen* qvq*", Model{}},
		{"mistral* open-mistral* mixtral* open-mixtral* magistral* codestral* devstral*", Model{}},
		{"deepseek* grok* phi* command* nova* kimi* glm* granite* nemotron*", Model{}},
	})
}

// estimated returns rows as those of models without a public tokenizer.
func estimated(rows []row) []row {
	for i := range rows {
		rows[i].Estimated = true
	}
	return rows
}
