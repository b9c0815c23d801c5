package tokens

// anthropic returns Anthropic's models (platform.claude.com/docs/en/models). Routers write the
// version with a dot, Anthropic with a hyphen.
func anthropic() []row {
	var (
		standard = claude(limits{1568, 1568})
		high     = claude(limits{2576, 4784}) // since 4.7
	)
	return estimated([]row{
		{"claude-3-7* claude-3.7*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard, SearchResults: true}},
		{"claude-3-5* claude-3.5*", Model{Window: 200_000, MaxOutput: 8_192, Images: standard, SearchResults: true}},
		{"claude-3*", Model{Window: 200_000, MaxOutput: 4_096, Images: standard}},
		{"claude-opus-4-8* claude-opus-4.8* claude-opus-4-7* claude-opus-4.7*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: high, SearchResults: true}},
		{"claude-opus-4-6* claude-opus-4.6*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: standard, SearchResults: true}},
		{"claude-opus-4-5* claude-opus-4.5*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard, SearchResults: true}},
		{"claude-opus-4*", Model{Window: 200_000, MaxOutput: 32_000, Images: standard, SearchResults: true}},
		{"claude-sonnet-4-6* claude-sonnet-4.6*", Model{Window: 1_000_000, MaxOutput: 64_000, Images: standard, SearchResults: true}},
		{"claude-sonnet-4* claude-haiku-4*", Model{Window: 200_000, MaxOutput: 64_000, Images: standard, SearchResults: true}},
		{"claude-opus-5* claude-sonnet-5* claude-haiku-5* claude-fable-5* claude-mythos*", Model{Window: 1_000_000, MaxOutput: 128_000, Images: high, SearchResults: true}},
		{"claude-2* claude-instant*", Model{Window: 100_000, MaxOutput: 4_096}},
		{"claude*", Model{Images: high, SearchResults: true}},
	})
}

// families returns the models of other vendors, which have no tokenizer of OpenAI's. o200k is the
// nearest for most of them. Windows are those of the model cards, and of most hosts in the list
// of TableDate; a server may be configured with less.
func families() []row {
	return estimated([]row{
		// ai.google.dev/gemini-api/docs/models; the window is that of the input.
		{"gemini-1.5-pro*", Model{Window: 2_097_152, MaxOutput: 8_192}},
		{"gemini-1.5* gemini-2.0-flash-exp-image* gemini-2.0-flash-preview-image* gemini-2.0-flash*", Model{Window: 1_048_576, MaxOutput: 8_192}},
		{"gemini-2.5-flash-image* gemini-3-pro-image* gemini-3.1-flash-image* gemini-3.1-flash-lite-image*", Model{}},
		{"gemini-2.5* gemini-3*", Model{Window: 1_048_576, MaxOutput: 65_535}},
		{"gemini-4* gemini-flash-latest gemini-flash-lite-latest gemini-pro-latest", Model{Window: 1_048_576}},
		{"gemma-2* gemma2*", Model{Window: 8_192}},
		{"gemma-3* gemma3*", Model{Window: 32_768}},
		{"gemma gemma-1* gemma-7b* codegemma*", Model{Window: 8_192}},
		{"gemma-4-26b* gemma-4-31b* gemma4:26b* gemma4:31b*", Model{Window: 262_144}},
		{"gemma-4* gemma4*", Model{Window: 131_072}},

		{"llama-3.1* llama-3.2* llama-3.3* llama3.1* llama3.2* llama3.3*", Model{Window: 131_072}},
		{"meta-llama-3.1* meta-llama-3.2* meta-llama-3.3*", Model{Window: 131_072}},
		{"llama3-1-* llama3-2-* llama3-3-* llama-v3p1* llama-v3p2* llama-v3p3*", Model{Window: 131_072}},
		{"llama-3-8b* llama-3-70b* meta-llama-3-* llama3-8b* llama3-70b* llama3 llama-v3-*", Model{Window: 8_192}},
		{"llama-3-1-* llama-3-2-* llama-3-3-* meta-llama-3_1* meta-llama-3_3* llama-3_1* llama-3_3*", Model{Window: 131_072}},
		{"llama-2-* llama2* llama-v2-*", Model{Window: 4_096}},
		{"llama-4-scout* llama4-scout* llama4:scout* llama4:16x17b*", Model{Window: 10_485_760}},
		{"llama-4* llama4*", Model{Window: 1_048_576}},

		{"qwen2.5* qwen2p5* qwen-2.5* qwen2-* qwen2:* qwen-2-* qwq*", Model{Window: 32_768}},
		{"qwen3-coder* qwen3-next* qwen3-max* qwen-3-coder*", Model{Window: 262_144}},
		{"qwen3-235b-a22b-2507* qwen3-235b-a22b-instruct-2507* qwen3-235b-a22b-thinking-2507*", Model{Window: 262_144}},
		{"qwen3-30b-a3b-instruct-2507* qwen3-30b-a3b-thinking-2507* qwen3-4b-instruct-2507* qwen3-4b-thinking-2507*", Model{Window: 262_144}},
		{"qwen3-vl*", Model{Window: 131_072}},
		{"qwen3-omni*", Model{Window: 65_536}},
		{"qwen3.* qwen3p* qwen-3.*", Model{Window: 262_144}}, // qwen3.5 and later; those served only by Alibaba have a million
		{"qwen3* qwen-3-*", Model{Window: 40_960}},
		{"qwen-plus* qwen-turbo* qwen-flash*", Model{Window: 131_072}},
		{"qwen-max*", Model{Window: 32_768}},

		{"mixtral-8x7b-instruct* mixtral-8x7b* open-mixtral-8x7b*", Model{Window: 32_768}},
		{"mixtral-8x22b* open-mixtral-8x22b*", Model{Window: 65_536}},
		{"mistral-7b-instruct-v0 mistral-7b-instruct-v0.1* mistral-7b-instruct-v0.2*", Model{}},
		{"mistral mistral-7b-* mistral-tiny* open-mistral-7b* mistral-saba*", Model{Window: 32_768}},
		{"mistral-large-2402* mistral-small-24* mistral-small-2501*", Model{Window: 32_768}},
		{"mistral-small-25* mistral-small-3.* mistral-small3.*", Model{Window: 131_072}},
		{"mistral-small-26* mistral-small-4* mistral-small-latest", Model{Window: 262_144}},
		{"mistral-small*", Model{Window: 32_768}},
		{"mistral-medium-26* mistral-medium-3.5* mistral-medium-3-5* mistral-medium-latest", Model{Window: 262_144}},
		{"mistral-medium*", Model{Window: 131_072}},
		{"magistral* devstral*", Model{Window: 131_072}},
		{"codestral-25* codestral-2", Model{Window: 128_000}},
		{"codestral-embed*", Model{}},
		{"codestral*", Model{Window: 32_000}},
		{"mistral-large* mistral-nemo* open-mistral-nemo* ministral* pixtral*", Model{Window: 131_072}},

		{"deepseek-v4*", Model{Window: 1_000_000}},
		{"deepseek-v3* deepseek-r1*", Model{Window: 131_072}},
		{"deepseek-chat* deepseek-reasoner*", Model{Window: 131_072}},
		{"deepseek.v3* deepseek.r1*", Model{Window: 128_000}}, // Bedrock's spelling

		{"grok-2-vision*", Model{Window: 32_768}},
		{"grok-2* grok-3*", Model{Window: 131_072}},
		{"grok-4* grok-code*", Model{Window: 256_000}},
		{"grok-5*", Model{Window: 256_000}}, // not published; the smallest of its predecessor

		{"phi-3.5* phi3.5* phi-4-mini* phi4-mini phi-4-multimodal*", Model{Window: 131_072}},
		{"phi-4-reasoning* phi4-reasoning", Model{Window: 32_768}},
		{"phi-4* phi4*", Model{Window: 16_384}},

		{"command-a*", Model{Window: 256_000, MaxOutput: 8_000}},
		{"command-r*", Model{Window: 128_000, MaxOutput: 4_000}},

		{"nova-micro*", Model{Window: 128_000, MaxOutput: 5_000}},
		{"nova-lite* nova-pro*", Model{Window: 300_000, MaxOutput: 5_000}},
		{"nova-premier* nova-2-*", Model{Window: 1_000_000}},

		{"kimi-k3*", Model{Window: 1_000_000}},
		{"kimi-k2.5* kimi-k2.* kimi-k2p* kimi-k2-thinking*", Model{Window: 262_144}},
		{"kimi-k2-0905* kimi-k2-instruct-0905*", Model{Window: 262_144}},
		{"kimi-k2*", Model{Window: 131_072}},
		{"minimax-m1* minimax-text*", Model{Window: 1_000_000}},
		{"minimax-m2*", Model{Window: 196_608}},
		{"minimax-m3*", Model{Window: 512_000}},
		{"glm-4.5v*", Model{Window: 65_536}},
		{"glm-4.5* glm-4.6v*", Model{Window: 131_072}},
		{"glm-4.6* glm-4.7*", Model{Window: 200_000}},
		{"glm-4p5v*", Model{Window: 65_536}},
		{"glm-4p5*", Model{Window: 131_072}},
		{"glm-4p6* glm-4p7*", Model{Window: 200_000}},
		{"glm-5.2* glm-5.3* glm-5p2* glm-5p3*", Model{Window: 1_000_000}},
		{"glm-5*", Model{Window: 200_000}},

		{"granite-3.1* granite-3.2* granite-3.3* granite3.1* granite3.2* granite3.3* granite-4* granite4*", Model{Window: 131_072}},
		{"nemotron-3* nemotron-nano-3* nemotron-super-3*", Model{Window: 262_144}},
		{"nemotron-nano*", Model{Window: 128_000}},

		// Families of several sizes.
		{"gemini* gemma* medgemma* llama* meta-llama* codellama* qwen* qvq*", Model{}},
		{"mistral* open-mistral* mixtral* open-mixtral*", Model{}},
		{"deepseek* grok* phi* command* nova* kimi* glm* granite* nemotron* minimax*", Model{}},
	})
}

// estimated marks rows as models without a public tokenizer.
func estimated(rows []row) []row {
	for i := range rows {
		rows[i].Estimated = true
	}
	return rows
}
