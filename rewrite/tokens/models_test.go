package tokens_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"

	"sidenote/rewrite/tokens"
)

// Lookup finds each model's own row: its match, encoding, window and maximum output, and
// "estimated" if there is no public tokenizer.
func TestLookup(t *testing.T) {
	table := tokens.Builtin()
	for _, section := range strings.Split(lookups, "\n\n") {
		for _, line := range strings.Split(strings.TrimSpace(section), "\n")[1:] {
			name, want, _ := strings.Cut(line, " = ")
			row, ok := tokens.Lookup(table, name)
			got := fmt.Sprintf("%s %s %d %d", row.Match, row.Encoding, row.Window, row.MaxOutput)
			if row.Estimated {
				got += " estimated"
			}
			if got != strings.Join(strings.Fields(want), " ") || ok != (row.Match != tokens.Other) {
				t.Errorf("Lookup(%q) = %s, %v; want %s", name, got, ok, want)
			}
		}
	}
}

const lookups = `
OpenAI's models
gpt-6-astra = gpt-6* o200k_base 1050000 128000 estimated
gpt-6.2-sol = gpt-6* o200k_base 1050000 128000 estimated
gpt-5.6 = gpt-5.6* o200k_base 1050000 128000
gpt-5.6-terra = gpt-5.6* o200k_base 1050000 128000
gpt-5.5-2026-04-23 = gpt-5.5* o200k_base 1050000 128000
gpt-5.5-pro = gpt-5.5* o200k_base 1050000 128000
gpt-5.4 = gpt-5.4* o200k_base 1050000 128000
gpt-5.4-mini-2026-03-17 = gpt-5.4-mini* o200k_base 400000 128000
gpt-5.4-nano = gpt-5.4-nano* o200k_base 400000 128000
gpt-5.3-chat-latest = gpt-5.3-chat* o200k_base 128000 16384
gpt-5.3-codex = gpt-5.3* o200k_base 400000 128000
gpt-5.3-codex-spark = gpt-5.3-codex-spark* o200k_base 128000 0
gpt-5.2-chat-latest = gpt-5.2-chat* o200k_base 128000 16384
gpt-5.2-pro = gpt-5.2* o200k_base 400000 128000
gpt-5.1-chat-latest = gpt-5.1-chat* o200k_base 128000 16384
gpt-5.1-codex-max = gpt-5* o200k_base 400000 128000
gpt-5.1-codex-mini = gpt-5.1-codex-mini* o200k_base 400000 128000
gpt-5 = gpt-5* o200k_base 400000 128000
gpt-5-codex = gpt-5* o200k_base 400000 128000
gpt-5-pro-2025-10-06 = gpt-5-pro* o200k_base 400000 272000
GPT-5-mini-2025-08-07 = gpt-5-mini* o200k_base 400000 128000
gpt-5-nano = gpt-5-nano* o200k_base 400000 128000
gpt-5-chat-latest = gpt-5-chat* o200k_base 128000 16384
gpt-oss-safeguard-120b = gpt-oss* o200k_base 131072 131072
codex-mini-latest = codex-mini* o200k_base 200000 100000
o1-pro-2025-03-19 = o1* o200k_base 200000 100000
o1-mini = o1-mini* o200k_base 128000 65536
o3-mini-2025-01-31 = o3-mini* o200k_base 200000 100000
o3-deep-research = o3* o200k_base 200000 100000
o4-mini-deep-research-2025-06-26 = o4* o200k_base 200000 100000
gpt-4.5-preview = gpt-4.5* o200k_base 128000 16384
gpt-4.1-2025-04-14 = gpt-4.1* o200k_base 1047576 32768
gpt-4.1-mini = gpt-4.1-mini* o200k_base 1047576 32768
gpt-4.1-nano = gpt-4.1-nano* o200k_base 1047576 32768
gpt-4o = gpt-4o* o200k_base 128000 16384
gpt-4o-2024-05-13 = gpt-4o-2024-05-13 o200k_base 128000 4096
gpt-4o-search-preview = gpt-4o* o200k_base 128000 16384
gpt-4o-audio-preview-2025-06-03 = gpt-4o* o200k_base 128000 16384
gpt-4o-mini-search-preview = gpt-4o-mini* o200k_base 128000 16384
gpt-4o-mini-realtime-preview = gpt-4o-mini-realtime* o200k_base 16000 4096
chatgpt-4o-latest = chatgpt-4o* o200k_base 128000 16384
gpt-audio-1.5 = gpt-audio* o200k_base 128000 16384
gpt-realtime = gpt-realtime* o200k_base 32000 4096
gpt-realtime-2.1-mini = gpt-realtime-2* o200k_base 128000 32000
computer-use-preview = computer-use-preview* o200k_base 8192 1024
gpt-4 = gpt-4 cl100k_base 8192 8192
gpt-4-0613 = gpt-4-* cl100k_base 8192 8192
gpt-4-turbo-2024-04-09 = gpt-4-turbo* cl100k_base 128000 4096
gpt-4-32k-0613 = gpt-4-32k* cl100k_base 32768 0
gpt-3.5-turbo = gpt-3.5* cl100k_base 16385 4096
gpt-3.5-turbo-instruct = gpt-3.5-turbo-instruct* cl100k_base 4096 4096
text-embedding-3-small = text-embedding-3* cl100k_base 8192 0
text-davinci-003 = text-davinci-00* p50k_base 0 0
text-davinci-001 = text-davinci-001 r50k_base 0 0
gpt-7 = gpt-* o200k_base 0 0 estimated

Fine-tuned
ft:gpt-4o-mini-2024-07-18:acme::abc = gpt-4o-mini* o200k_base 128000 16384
ft:gpt-4.1-nano-2025-04-14:acme:support:BxYz:ckpt-step-90 = gpt-4.1-nano* o200k_base 1047576 32768
FT:GPT-3.5-turbo-0613:acme::abc = gpt-3.5-turbo-0613 cl100k_base 4096 4096
openai/ft:gpt-3.5-turbo-0613:acme::abc = gpt-3.5-turbo-0613 cl100k_base 4096 4096
ft:davinci-002:acme::abc = davinci-002 cl100k_base 16384 16384
curie:ft-acme-2022-04-01-12-00-00 = curie r50k_base 0 0
davinci:ft-personal:x-2023-01-01 = davinci r50k_base 0 0
gpt-35-turbo-0125.ft-0a1b2c = gpt-35* cl100k_base 16385 4096

OpenRouter
openrouter/openai/gpt-4o:free = gpt-4o* o200k_base 128000 16384
openai/gpt-4:nitro = gpt-4 cl100k_base 8192 8192
openai/gpt-oss-120b:free = gpt-oss* o200k_base 131072 131072
openai/chatgpt-4o-latest = chatgpt-4o* o200k_base 128000 16384
anthropic/claude-3.5-sonnet:beta = claude-3.5* o200k_base 200000 8192 estimated
anthropic/claude-3.7-sonnet:thinking = claude-3.7* o200k_base 200000 64000 estimated
anthropic/claude-sonnet-4 = claude-sonnet-4* o200k_base 200000 64000 estimated
anthropic/claude-opus-4.1 = claude-opus-4* o200k_base 200000 32000 estimated
anthropic/claude-opus-4.7 = claude-opus-4.7* o200k_base 1000000 128000 estimated
google/gemini-2.5-pro = gemini-2.5* o200k_base 1048576 65535 estimated
meta-llama/llama-3.3-70b-instruct:free = llama-3.3* o200k_base 131072 0 estimated
meta-llama/llama-4-scout = llama-4-scout* o200k_base 10485760 0 estimated
mistralai/mistral-large-2411 = mistral-large* o200k_base 131072 0 estimated
mistralai/mistral-medium-3 = mistral-medium* o200k_base 131072 0 estimated
deepseek/deepseek-chat-v3.1:free = deepseek-chat* o200k_base 131072 0 estimated
deepseek/deepseek-r1-distill-llama-70b = deepseek-r1* o200k_base 131072 0 estimated
x-ai/grok-4-fast:free = grok-4* o200k_base 256000 0 estimated
qwen/qwen3-coder:exacto = qwen3-coder* o200k_base 262144 0 estimated
moonshotai/kimi-k2.5 = kimi-k2.5* o200k_base 262144 0 estimated
z-ai/glm-4.6 = glm-4.6* o200k_base 200000 0 estimated
nvidia/llama-3.1-nemotron-70b-instruct = llama-3.1* o200k_base 131072 0 estimated

Bedrock
anthropic.claude-3-5-sonnet-20240620-v1:0 = claude-3-5* o200k_base 200000 8192 estimated
us.anthropic.claude-3-haiku-20240307-v1:0 = claude-3* o200k_base 200000 4096 estimated
global.anthropic.claude-opus-4-5-20251101-v1:0 = claude-opus-4-5* o200k_base 200000 64000 estimated
us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0 = claude-sonnet-4* o200k_base 200000 64000 estimated
arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-5 = claude-sonnet-5* o200k_base 1000000 128000 estimated
us.amazon.nova-lite-v1:0 = nova-lite* o200k_base 300000 5000 estimated
meta.llama3-1-8b-instruct-v1:0 = llama3-1-* o200k_base 131072 0 estimated
meta.llama3-8b-instruct-v1:0 = llama3-8b* o200k_base 8192 0 estimated
mistral.mistral-large-2402-v1:0 = mistral-large-2402* o200k_base 32768 0 estimated
openai.gpt-oss-20b-1:0 = gpt-oss* o200k_base 131072 131072
qwen.qwen3-coder-480b-a35b-v1:0 = qwen3-coder* o200k_base 262144 0 estimated

Vertex and Gemini
google/gemini-2.5-flash-image = gemini-2.5-flash-image* o200k_base 0 0 estimated
publishers/google/models/gemini-2.0-flash-001 = gemini-2.0-flash* o200k_base 1048576 8192 estimated
projects/p/locations/us-central1/publishers/anthropic/models/claude-3-5-sonnet-v2@20241022 = claude-3-5* o200k_base 200000 8192 estimated
vertex_ai/claude-opus-4-6@default = claude-opus-4-6* o200k_base 1000000 128000 estimated
models/gemini-2.5-flash = gemini-2.5* o200k_base 1048576 65535 estimated
gemini-3-pro-preview = gemini-3* o200k_base 1048576 65535 estimated
gemini-4-argon = gemini-4* o200k_base 1048576 0 estimated
gemini-flash-latest = gemini-flash-latest o200k_base 1048576 0 estimated

Azure: a deployment may be called anything
gpt-35-turbo-16k = gpt-35* cl100k_base 16385 4096
azure/gpt-4o-prod = gpt-4o* o200k_base 128000 16384
my-deployment = other o200k_base 0 0 estimated
prod-gpt-4o = other o200k_base 0 0 estimated

Together, Fireworks and Groq
accounts/fireworks/models/llama-v3p1-405b-instruct = llama-v3p1* o200k_base 131072 0 estimated
accounts/fireworks/models/deepseek-v3 = deepseek-v3* o200k_base 131072 0 estimated
fireworks_ai/accounts/fireworks/models/qwen2p5-72b-instruct = qwen2p5* o200k_base 32768 0 estimated
meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo = meta-llama-3.1* o200k_base 131072 0 estimated
meta-llama/Meta-Llama-3-70B-Instruct = meta-llama-3-* o200k_base 8192 0 estimated
Qwen/Qwen2.5-7B-Instruct-Turbo = qwen2.5* o200k_base 32768 0 estimated
me@example.org/Meta-Llama-3.1-8B-Instruct-Reference-tuned = meta-llama-3.1* o200k_base 131072 0 estimated
mistralai/Mixtral-8x7B-Instruct-v0.1 = mixtral-8x7b-instruct* o200k_base 32768 0 estimated
llama-3.3-70b-versatile = llama-3.3* o200k_base 131072 0 estimated

Ollama and LM Studio
llama3.1:8b = llama3.1* o200k_base 131072 0 estimated
llama3:8b-instruct-q4_0 = llama3 o200k_base 8192 0 estimated
qwen2.5-coder:7b = qwen2.5* o200k_base 32768 0 estimated
gpt-oss:20b = gpt-oss* o200k_base 131072 131072
phi4:14b = phi4* o200k_base 16384 0 estimated
phi4-mini:latest = phi4-mini o200k_base 131072 0 estimated
hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M = llama-3.2* o200k_base 131072 0 estimated
lmstudio-community/qwen2.5-7b-instruct@q4_k_m = qwen2.5* o200k_base 32768 0 estimated
library/gemma3:27b = gemma3* o200k_base 32768 0 estimated

Anything else
claude-opus-5-5 = claude-opus-5* o200k_base 1000000 128000 estimated
claude-9 = claude* o200k_base 0 0 estimated
demo = other o200k_base 0 0 estimated
 = other o200k_base 0 0 estimated
/ = other o200k_base 0 0 estimated
ft: = other o200k_base 0 0 estimated
.:@ = other o200k_base 0 0 estimated
a/b/c/d/e/f/g/h/i/j/k/l/gpt-4o = other o200k_base 0 0 estimated`

// Current models have a window, in the spellings of vendors, routers, clouds and Ollama.
func TestWindows(t *testing.T) {
	table := tokens.Builtin()
	for want, names := range map[int]string{
		40_960:     "qwen3 qwen3:8b qwen/qwen3-32b qwen-3-32b",
		262_144:    "qwen3.5 qwen3.5:27b qwen/qwen3.6-35b-a3b qwen3.6 accounts/fireworks/models/qwen3p7-plus Qwen/Qwen3-235B-A22B-Instruct-2507",
		10_485_760: "llama-4-scout llama4:scout us.meta.llama4-scout-17b-instruct-v1:0 meta-llama/Llama-4-Scout-17B-16E-Instruct",
		1_048_576:  "llama-4-maverick llama4:maverick llama4 meta-llama/llama-4-maverick:free",
		131_072:    "gemma-4 gemma4:e4b google.gemma-4-e2b deepseek-chat deepseek-reasoner mistral-medium devstral magistral devstral-small-2505 magistral-small:24b mistral-small3.2",
		200_000:    "glm-5 z-ai/glm-5.1 zai.glm-5 accounts/fireworks/models/glm-5p1",
		196_608:    "minimax-m2 minimax/minimax-m2.5 MiniMaxAI/MiniMax-M2 minimax-m2:cloud",
		1_000_000:  "kimi-k3 us.moonshotai.kimi-k3 kimi-k3.1-pro glm-5.3 us.amazon.nova-2-lite-v1:0",
		256_000:    "grok-5 x-ai/grok-5-fast",
	} {
		for _, name := range strings.Fields(names) {
			if row, _ := tokens.Lookup(table, name); row.Window != want {
				t.Errorf("%s (row %s): window %d, want %d", name, row.Match, row.Window, want)
			}
		}
	}
	for _, name := range strings.Fields("kimi-k2.6 kimi-k2-thinking moonshotai/kimi-k2.6 kimi-k2-thinking:cloud accounts/fireworks/models/kimi-k2p6 kimi-k2-instruct-0905 moonshot.kimi-k2-thinking gemma4:31b google/gemma-4-26b-a4b-it") {
		if row, _ := tokens.Lookup(table, name); row.Window != 262_144 {
			t.Errorf("%s (row %s): window %d, want 262144", name, row.Match, row.Window)
		}
	}
}

// White space around a name is ignored; a name that is too long, or has only frames, matches no
// row.
func TestLookupOfNoName(t *testing.T) {
	table := tokens.Builtin()
	if row, _ := tokens.Lookup(table, " gpt-4o\n"); row.Match != "gpt-4o*" {
		t.Errorf("Lookup of a name in spaces = %+v", row)
	}
	for _, name := range []string{
		"gpt-4o" + strings.Repeat("x", 1<<20), strings.Repeat(" ", 1<<20) + "gpt-4o", "\xff/\xfe",
		strings.Repeat("/", 1<<20), strings.Repeat("a.", 200), strings.Repeat("ft:", 50),
	} {
		if row, ok := tokens.Lookup(table, name); ok {
			t.Errorf("Lookup(%.20q…) = %+v", name, row)
		}
	}
}

// A configured row before the table wins, even with a whole name.
func TestLookupFirstRowWins(t *testing.T) {
	table := append([]tokens.Model{{Match: "Azure/gpt-4o", Encoding: "cl100k_base"}, {Match: "gpt-oss:20b", Window: 4096}}, tokens.Builtin()...)
	if m, _ := tokens.Lookup(table, "azure/gpt-4o"); m.Encoding != "cl100k_base" {
		t.Errorf("Lookup(azure/gpt-4o) = %+v", m)
	}
	if m, _ := tokens.Lookup(table, "gpt-4o"); m.Encoding != "o200k_base" {
		t.Errorf("Lookup(gpt-4o) = %+v", m)
	}
	if m, _ := tokens.Lookup(table, "gpt-oss:20b"); m.Window != 4096 {
		t.Errorf("Lookup(gpt-oss:20b) = %+v", m)
	}
}

// No row is shadowed by an earlier one, every encoding exists, and sizes are consistent.
func TestBuiltinRowsHold(t *testing.T) {
	for _, row := range tokens.Builtin() {
		if m, ok := tokens.Lookup(tokens.Builtin(), row.Match); !ok || m != row {
			t.Errorf("row %q is shadowed by %q", row.Match, m.Match)
		}
		encoding(t, row.Encoding)
		if row.MaxOutput > row.Window || row.MaxOutput > 0 && row.DefaultOutput > row.MaxOutput {
			t.Errorf("row %q: default output %d, output %d, window %d", row.Match, row.DefaultOutput, row.MaxOutput, row.Window)
		}
		if row.Match != strings.ToLower(row.Match) {
			t.Errorf("row %q is not in lower case", row.Match)
		}
	}
}

// A model that both our table and tiktoken's have gets the encoding that tiktoken publishes, also
// behind a prefix. Models that were retired before chats have no row.
func TestPublishedEncodings(t *testing.T) {
	retired := strings.Fields("text-curie-001 text-babbage-001 text-ada-001 code-cushman-001 code-cushman-002 davinci-codex cushman-codex text-davinci-edit-001 " +
		"text-similarity-davinci-001 text-similarity-curie-001 text-similarity-babbage-001 text-similarity-ada-001 " +
		"text-search-davinci-doc-001 text-search-curie-doc-001 text-search-babbage-doc-001 text-search-ada-doc-001 " +
		"code-search-babbage-code-001 code-search-ada-code-001 gpt2")
	published := maps.Clone(tiktoken.MODEL_TO_ENCODING)
	for prefix, encoding := range tiktoken.MODEL_PREFIX_TO_ENCODING {
		published[prefix+"2031-01-01"] = encoding
	}
	table := tokens.Builtin()
	for name, want := range published {
		if want == tiktoken.MODEL_P50K_EDIT {
			want = tiktoken.MODEL_P50K_BASE // the same vocabulary with other special tokens, which are counted as text
		}
		row, ok := tokens.Lookup(table, name)
		switch {
		case ok == slices.Contains(retired, name):
			t.Errorf("%s has the row %s", name, row.Match)
		case ok && row.Encoding != want:
			t.Errorf("%s (row %s): encoding %s, tiktoken publishes %s", name, row.Match, row.Encoding, want)
		}
	}
}

// OpenAI's reasoning models refuse max_tokens; others accept it, and some accept nothing else.
func TestCompletionCap(t *testing.T) {
	table := tokens.Builtin()
	for name, want := range map[string]bool{
		"gpt-5-mini": true, "openai/o3": true, "o1-preview": true, "gpt-6": true, "codex-mini-latest": true,
		"gpt-4o": false, "gpt-oss:20b": false, "gpt-4": false, "llama-3.1-8b": false, "unheard-of": false,
	} {
		if row, _ := tokens.Lookup(table, name); row.CompletionCap != want {
			t.Errorf("CompletionCap of %s = %t, want %t", name, row.CompletionCap, want)
		}
	}
}

// Models that refuse tools are distinguished from related ones that accept them. For some it
// depends on the reasoning effort.
func TestToolUse(t *testing.T) {
	table := tokens.Builtin()
	for name, want := range map[string]string{ // for the efforts "", none and low: f accepts functions, n accepts none
		"o1-mini-2024-09-12": "nnn", "openai/o1-preview": "nnn", "chatgpt-4o-latest": "nnn", "gemma3:4b": "nnn", "google/gemma-2-9b-it": "nnn", "gemma:7b": "nnn",
		"gpt-5.4": "ffn", "gpt-5.4-mini-2026-03-17": "ffn", "openai/gpt-5.5": "ffn", "gpt-5.6": "nfn", "gpt-5.6-sol": "nfn",
		"o1": "fff", "o3-mini": "fff", "gpt-5.3": "fff", "gpt-4o": "fff", "gpt-3.5-turbo": "fff", "gemma-4-31b": "fff", "gemini-2.5-pro": "fff", "unheard-of": "fff",
	} {
		row, _ := tokens.Lookup(table, name)
		got := ""
		for _, effort := range []string{"", "none", "low"} {
			got += row.Tools.For(effort).String()[:1]
		}
		if got != want {
			t.Errorf("tools of %s (%s): %s, want %s", name, row.Match, got, want)
		}
	}
}

// Reasoning models have a reserve for reasoning.
func TestDefaultOutput(t *testing.T) {
	table := tokens.Builtin()
	for name, want := range map[string]int{
		"o1": 25_000, "o3-pro": 25_000, "o4-mini": 25_000, "gpt-5": 25_000, "gpt-5-nano": 25_000, "gpt-5.1": 25_000,
		"gpt-5.6-sol": 25_000, "gpt-6-luna": 25_000, "gpt-oss:20b": 25_000, "codex-mini-latest": 25_000,
		"gpt-5-chat-latest": 0, "gpt-5.3-chat-latest": 0, "gpt-4.1": 0, "gpt-4o": 0, "claude-opus-5": 0, "demo": 0,
	} {
		if row, _ := tokens.Lookup(table, name); row.DefaultOutput != want {
			t.Errorf("DefaultOutput of %s = %d, want %d", name, row.DefaultOutput, want)
		}
	}
}

// Models that refuse a temperature, and those that reason before they answer, are distinguished
// from related ones.
func TestTemperatureAndReasoning(t *testing.T) {
	type facts struct {
		FixedTemperature bool
		Reasoning        tokens.Reasoning
	}
	table := tokens.Builtin()
	for name, want := range map[string]facts{
		"claude-opus-4-7": {true, ""}, "anthropic/claude-opus-4.8": {true, ""}, "us.anthropic.claude-opus-5-v1:0": {true, ""}, "claude-sonnet-5": {true, ""},
		"claude-opus-4-6": {}, "claude-sonnet-4-6": {}, "claude-3-5-sonnet-20241022": {false, tokens.ReasoningNone},
		"kimi-k2.5": {true, tokens.ReasoningFixed}, "kimi-k2.6": {true, tokens.ReasoningFixed}, "kimi-k2-thinking": {false, tokens.ReasoningFixed}, "kimi-k2": {}, "o3": {false, tokens.ReasoningEffort}, "gpt-5.4-mini": {false, tokens.ReasoningEffort},
		"gpt-5-pro": {false, tokens.ReasoningFixed}, "gpt-5-chat-latest": {}, "o1-mini": {false, tokens.ReasoningFixed}, "gpt-oss:20b": {false, tokens.ReasoningEffort},
		"gemini-2.5-flash": {false, tokens.ReasoningEffort}, "deepseek-r1": {false, tokens.ReasoningFixed}, "grok-4": {false, tokens.ReasoningFixed},
		"gpt-4o": {false, tokens.ReasoningNone}, "gpt-4o-mini": {false, tokens.ReasoningNone}, "gpt-3.5-turbo": {false, tokens.ReasoningNone},
		"llama-3.1-8b": {false, tokens.ReasoningNone}, "qwen3:8b": {}, "unheard-of": {},
	} {
		if row, _ := tokens.Lookup(table, name); (facts{row.FixedTemperature, row.Reasoning}) != want {
			t.Errorf("%s (%s): %t, %q, want %+v", name, row.Match, row.FixedTemperature, row.Reasoning, want)
		}
	}
}
