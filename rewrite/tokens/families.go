package tokens

import "strings"

// anthropic returns Anthropic's models (platform.claude.com/docs/en/models). Routers
// write the version with a dot, Anthropic with a hyphen.
func anthropic() []Model {
	var (
		standard = claude(limits{1568, 1568})
		high     = claude(limits{2576, 4784}) // since 4.7
	)
	var table []Model
	for _, row := range []struct {
		names          string
		window, output int
		images         ImageRule
	}{
		{"claude-3-7* claude-3.7*", 200_000, 64_000, standard},
		{"claude-3-5* claude-3.5*", 200_000, 8_192, standard},
		{"claude-3*", 200_000, 4_096, standard},
		{"claude-opus-4-8* claude-opus-4.8* claude-opus-4-7* claude-opus-4.7*", 1_000_000, 128_000, high},
		{"claude-opus-4-6* claude-opus-4.6*", 1_000_000, 128_000, standard},
		{"claude-opus-4-5* claude-opus-4.5*", 200_000, 64_000, standard},
		{"claude-opus-4*", 200_000, 32_000, standard},
		{"claude-sonnet-4-6* claude-sonnet-4.6*", 1_000_000, 64_000, standard},
		{"claude-sonnet-4* claude-haiku-4*", 200_000, 64_000, standard},
		{"claude-opus-5* claude-sonnet-5* claude-haiku-5* claude-fable-5*", 1_000_000, 128_000, high},
		{"claude-2* claude-instant*", 100_000, 4_096, ImageRule{}},
		{"claude*", 0, 0, high},
	} {
		for _, name := range strings.Fields(row.names) {
			table = append(table, Model{Match: name, Encoding: o200k, Window: row.window, MaxOutput: row.output, Estimated: true, Images: row.images})
		}
	}
	return table
}

// families returns the other models without a tokenizer of OpenAI's. o200k is the
// nearest to most of them. Windows are those of the model cards; a server may give them
// less.
func families() []Model {
	var table []Model
	for _, row := range []struct {
		names          string
		window, output int
	}{
		// ai.google.dev/gemini-api/docs/models; the window is that of the input.
		{"gemini-1.5-pro*", 2_097_152, 8_192},
		{"gemini-1.5* gemini-2.0-flash-exp-image* gemini-2.0-flash-preview-image* gemini-2.0-flash*", 1_048_576, 8_192},
		{"gemini-2.5-flash-image* gemini-3-pro-image* gemini-3.1-flash-image* gemini-3.1-flash-lite-image*", 0, 0},
		{"gemini-2.5* gemini-3*", 1_048_576, 65_535},
		{"gemini-4*", 1_048_576, 0},
		{"gemma-2* gemma2*", 8_192, 0},
		{"gemma-3* gemma3*", 32_768, 0},
		{"gemma gemma-1* gemma-7b* codegemma*", 0, 0},

		{"llama-3.1* llama-3.2* llama-3.3* llama3.1* llama3.2* llama3.3*", 131_072, 0},
		{"meta-llama-3.1* meta-llama-3.2* meta-llama-3.3*", 131_072, 0},
		{"llama3-1-* llama3-2-* llama3-3-* llama-v3p1* llama-v3p2* llama-v3p3*", 131_072, 0},
		{"llama-3-8b* llama-3-70b* meta-llama-3-* llama3-8b* llama3-70b* llama3 llama-v3-*", 8_192, 0},
		{"llama-2-* llama2* llama-v2-*", 4_096, 0},

		{"qwen2.5* qwq*", 32_768, 0},
		{"qwen3-coder* qwen3-next* qwen3-max*", 262_144, 0},

		{"mixtral-8x7b-instruct* mixtral-8x7b* open-mixtral-8x7b*", 32_768, 0},
		{"mixtral-8x22b* open-mixtral-8x22b*", 65_536, 0},
		{"mistral-7b-instruct-v0 mistral-7b-instruct-v0.1* mistral-7b-instruct-v0.2*", 0, 0},
		{"mistral-large-2402* mistral-small-24*", 32_768, 0},
		{"mistral-large* mistral-nemo* open-mistral-nemo* ministral* pixtral*", 131_072, 0},

		{"deepseek-v4*", 1_000_000, 0},
		{"deepseek-v3* deepseek-r1*", 131_072, 0},

		{"grok-2-vision*", 32_768, 0},
		{"grok-2* grok-3*", 131_072, 0},
		{"grok-4* grok-code*", 256_000, 0},

		{"phi-3.5* phi3.5* phi-4-mini* phi4-mini phi-4-multimodal*", 131_072, 0},
		{"phi-4-reasoning* phi4-reasoning", 32_768, 0},
		{"phi-4* phi4*", 16_384, 0},

		{"command-a*", 256_000, 8_000},
		{"command-r*", 128_000, 4_000},

		{"nova-micro*", 128_000, 5_000},
		{"nova-lite* nova-pro*", 300_000, 5_000},

		{"kimi-k2.5*", 262_144, 0},
		{"kimi-k2*", 131_072, 0},
		{"glm-4.5v*", 65_536, 0},
		{"glm-4.5* glm-4.6v*", 131_072, 0},
		{"glm-4.6* glm-4.7*", 200_000, 0},

		// Families of several sizes.
		{"gemini* gemma* medgemma* llama* meta-llama* codellama* qwen* qvq*", 0, 0},
		{"mistral* open-mistral* mixtral* open-mixtral* magistral* codestral* devstral*", 0, 0},
		{"deepseek* grok* phi* command* nova* kimi* glm* granite* nemotron*", 0, 0},
	} {
		for _, name := range strings.Fields(row.names) {
			table = append(table, Model{Match: name, Encoding: o200k, Window: row.window, MaxOutput: row.output, Estimated: true})
		}
	}
	return table
}
