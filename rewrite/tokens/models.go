package tokens

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pkoukk/tiktoken-go"
)

// A Model is one row of the model table.
type Model struct {
	Match         string // a name in lower case, or a prefix ending in *
	Configured    string // Match of the configured row that this row is a part of; "" for built-in rows
	Encoding      string // encoding that counts it
	Window        int    // context window in tokens, for input and output together; 0 if unknown
	MaxOutput     int    // maximum tokens of output; 0 if unknown
	DefaultOutput int    // tokens to reserve for an answer without a limit in request or policy; 0 if unknown
	Estimated     bool   // no public tokenizer: counts need a margin
	NoSystem      bool   // refuses messages of the role system
	Tools         ToolUse
	CompletionCap bool // chats need max_completion_tokens; max_tokens is refused
	Images        ImageRule
	SearchResults bool // cites blocks of the type search_result by itself
	PromptCache   PromptCache

	FixedTemperature bool // refuses requests with a temperature
	Reasoning        Reasoning
}

// Reasoning says whether a model reasons before it answers, using tokens of the answer's limit.
type Reasoning string

// The kinds of reasoning.
const (
	ReasoningUnknown Reasoning = ""
	ReasoningNone    Reasoning = "none"
	ReasoningFixed   Reasoning = "fixed"  // may reason, and refuses reasoning_effort or its value "low"
	ReasoningEffort  Reasoning = "effort" // may reason, and accepts reasoning_effort: "low"
)

// Other is the row of models that are not in the table.
const Other = "other"

// reasoning is how many tokens OpenAI recommends to reserve for reasoning and answer (its guide
// "Reasoning models", "Allocating space for reasoning").
const reasoning = 25_000

const (
	o200k  = tiktoken.MODEL_O200K_BASE
	cl100k = tiktoken.MODEL_CL100K_BASE
	p50k   = tiktoken.MODEL_P50K_BASE
	r50k   = tiktoken.MODEL_R50K_BASE
)

// TableDate is the date of the public list that the built-in table was last compared with; see
// deploy/models.py.
const TableDate = "2026-11-28"

// Builtin returns the built-in table, special rows before general ones. Sizes are those of
// developers.openai.com/api/docs/models and of the other vendors' pages; if models under one
// prefix differ, the smallest.
//
// A deployment may have any name, as on Azure. Its row is Other unless a row of the configuration
// matches it.
func Builtin() []Model {
	refusing, tools, fixed, reasoning, caches := strings.Fields(refuseSystem), toolUses(), strings.Fields(refuseTemperature), reasoningOf(), promptCaches()
	var table []Model
	for _, r := range slices.Concat(gpt5(), gpt4o(), older(), anthropic(), families()) {
		for _, name := range strings.Fields(r.names) {
			m := r.Model
			m.Match, m.Encoding, m.NoSystem = name, cmp.Or(m.Encoding, published(name), o200k), slices.Contains(refusing, name)
			m.Tools = tools[name]
			m.FixedTemperature = slices.Contains(fixed, name)
			m.Reasoning, m.PromptCache = reasoning[name], caches[name]
			table = append(table, m)
		}
	}
	return table
}

// A row holds models that differ only in their names. If its encoding is not set, it is the one
// that tiktoken publishes for the names, else o200k.
type row struct {
	names string
	Model
}

// published returns the encoding in tiktoken's model table of the models that match, a name or a
// prefix ending in *; "" if it has none of them, or has them with different encodings. The table
// ends with gpt-4.5. Nothing else of that package is used: it would download its vocabularies.
func published(match string) string {
	prefix, open := strings.CutSuffix(match, "*")
	for p, encoding := range tiktoken.MODEL_PREFIX_TO_ENCODING {
		if strings.HasPrefix(prefix, p) {
			return encoding
		}
	}
	found := ""
	for name, encoding := range tiktoken.MODEL_TO_ENCODING {
		if encoding == tiktoken.MODEL_P50K_EDIT {
			encoding = p50k // it has the same vocabulary
		}
		if name == match || open && strings.HasPrefix(name, prefix) {
			if found != "" && found != encoding {
				return ""
			}
			found = encoding
		}
	}
	return found
}

// refuseSystem lists the rows of models that answer a system message with an error: OpenAI's
// first two reasoning models; Gemma up to 2, by its chat template, and Gemma 3 at Google
// (elsewhere it reads such a message as the user's); Google's image generation models; Mistral's
// first models, by their original chat templates and at Bedrock.
const refuseSystem = "o1-mini* o1-preview* gemma gemma-1* gemma-7b* gemma-2* gemma2* codegemma* gemma-3* gemma3* " +
	"gemini-2.0-flash-exp-image* gemini-2.0-flash-preview-image* " +
	"mistral-7b-instruct-v0 mistral-7b-instruct-v0.1* mistral-7b-instruct-v0.2* mixtral-8x7b-instruct*"

// A ToolUse says how a model accepts tools.
type ToolUse int

// The ways. The last two are used in built-in rows only.
const (
	ToolFunctions      ToolUse = iota // in the member tools of a chat request
	ToolXML                           // refuses that member, but can call tools in its text
	ToolNone                          // refuses that member
	ToolUnlessEffort                  // ToolFunctions, but ToolNone in chats with a reasoning effort
	ToolWithEffortNone                // ToolNone, but ToolFunctions in chats with reasoning effort none
)

// String returns the name of t in the configuration and in listings.
func (t ToolUse) String() string {
	return [...]string{"functions", "xml", "none", "functions without effort", "functions with effort none"}[t]
}

// For returns how the model accepts tools in a chat with the given reasoning_effort ("" if not
// set): ToolFunctions, ToolXML or ToolNone.
func (t ToolUse) For(effort string) ToolUse {
	switch none := effort == "none"; {
	case t == ToolUnlessEffort && (effort == "" || none), t == ToolWithEffortNone && none:
		return ToolFunctions
	case t == ToolUnlessEffort || t == ToolWithEffortNone:
		return ToolNone
	}
	return t
}

// toolUses returns the ToolUse of rows whose models refuse tools, by name. OpenAI's first two
// reasoning models and the one of ChatGPT refuse them; so does Gemma up to 3, which was not
// trained to call functions, at Google and Ollama. On chat completions OpenAI's models from
// gpt-5.4 to gpt-5.6 do not accept tools while they reason, which gpt-5.6 does by default.
func toolUses() map[string]ToolUse {
	uses := map[string]ToolUse{}
	for use, names := range map[ToolUse]string{
		ToolNone:           "o1-mini* o1-preview* chatgpt-4o* gemma gemma-1* gemma-7b* gemma-2* gemma2* codegemma* gemma-3* gemma3*",
		ToolUnlessEffort:   "gpt-5.4* gpt-5.4-mini* gpt-5.4-nano* gpt-5.5*",
		ToolWithEffortNone: "gpt-5.6*",
	} {
		for _, name := range strings.Fields(names) {
			uses[name] = use
		}
	}
	return uses
}

// refuseTemperature lists the rows of models that answer a temperature with an error: Claude from
// Opus 4.7 on, and Kimi from K2.5 on, which accept only their own. So do OpenAI's models with
// CompletionCap.
const refuseTemperature = "claude-opus-4-8* claude-opus-4.8* claude-opus-4-7* claude-opus-4.7* " +
	"claude-opus-5* claude-sonnet-5* claude-haiku-5* claude-fable-5* claude-mythos* kimi-k3* kimi-k2.5* kimi-k2.* kimi-k2p*"

// The rows of models by their Reasoning, if known.
const (
	reasonByEffort = "gpt-6* gpt-5.6* gpt-5.5* gpt-5.4-mini* gpt-5.4-nano* gpt-5.4* gpt-5.3-codex-spark* gpt-5.3* gpt-5.2* gpt-5.1-codex-mini* " +
		"gpt-5-codex-mini* gpt-5-mini* gpt-5-nano* gpt-5* gpt-oss* codex-mini* o1* o3-mini* o3* o4* gemini-2.5* gemini-3*"
	reasonAlways = "gpt-5-pro* o1-mini* o1-preview* qwq* deepseek-v4* deepseek-r1* grok-4* grok-code* phi-4-reasoning* phi4-reasoning " +
		"kimi-k3* kimi-k2.5* kimi-k2.* kimi-k2p* kimi-k2-thinking* minimax-m1* minimax-m2* minimax-m3* deepseek-reasoner* deepseek.r1* " +
		"qwen3-235b-a22b-thinking-2507* qwen3-30b-a3b-thinking-2507* qwen3-4b-thinking-2507* " +
		"glm-4.5* glm-4.6* glm-4.7* glm-4p5* glm-4p6* glm-4p7* glm-5.2* glm-5.3* glm-5p2* glm-5p3* glm-5* magistral*"
	reasonNever = "gpt-4.5* gpt-4.1-mini* gpt-4.1-nano* gpt-4.1* gpt-4o-2024-05-13 gpt-4o-mini* gpt-4o* chatgpt-4o* " +
		"gpt-4-turbo* gpt-4-1106* gpt-4-0125* gpt-4-vision* gpt-4-32k* gpt-4 gpt-4-* gpt-4* gpt-3.5-turbo-instruct* gpt-3.5-turbo-0613 gpt-3.5-turbo-0301 gpt-3.5* gpt-35* " +
		"claude-3-5* claude-3.5* claude-3* claude-2* claude-instant* gemini-1.5-pro* gemini-1.5* gemini-2.0-flash* gemma-2* gemma2* gemma-3* gemma3* gemma gemma-1* gemma-7b* codegemma* " +
		"llama-3.1* llama-3.2* llama-3.3* llama3.1* llama3.2* llama3.3* llama-3-8b* llama-3-70b* llama3-8b* llama3-70b* llama3 llama-2-* llama2* " +
		"qwen2.5* qwen2p5* qwen-2.5* qwen2-* qwen2:* qwen-2-* deepseek-chat* mixtral-8x7b* open-mixtral-8x7b* mixtral-8x22b* open-mixtral-8x22b* phi-3.5* phi3.5* command-r* nova-micro* nova-lite* nova-pro*"
)

// reasoningOf returns the Reasoning of rows, by name.
func reasoningOf() map[string]Reasoning {
	of := map[string]Reasoning{}
	for names, r := range map[string]Reasoning{reasonByEffort: ReasoningEffort, reasonAlways: ReasoningFixed, reasonNever: ReasoningNone} {
		for _, name := range strings.Fields(names) {
			of[name] = r
		}
	}
	return of
}

// gpt5 returns OpenAI's models from gpt-5 on, and its earlier reasoning models.
func gpt5() []row {
	const million, most = 1_050_000, 128_000
	var (
		tiles    = tiled(70, 140)
		mini     = patched(120, limits{2048, 1536})
		fixed    = patched(120, limits{2048, 6144}) // the same for any detail
		low      = limits{512, 0}
		high     = limits{2048, 2500}
		original = limits{6000, 10_000}
		whole    = limits{65_535, 0}
		sized    = detailed(limits{2048, 6144}, high, original, high)
		larger   = detailed(low, high, original, original)
		unscaled = detailed(low, high, whole, whole)
		newest   = detailed(low, limits{65_535, 2500}, whole, whole)
		o        = tiled(75, 150)
		oMini    = patched(172, limits{2048, 1536})
	)
	rows := []row{
		{"gpt-6*", Model{Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: newest, Estimated: true}}, // OpenAI has not published its tokenizer
		{"gpt-5.6*", Model{Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: unscaled}},
		{"gpt-5.5*", Model{Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: larger}},
		{"gpt-5.4-mini* gpt-5.4-nano*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: sized}},
		{"gpt-5.4*", Model{Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: sized}},
		{"gpt-5.3-chat*", Model{Window: 128_000, MaxOutput: 16_384, Images: fixed}},
		{"gpt-5.3-codex-spark*", Model{Window: 128_000, DefaultOutput: reasoning}},
		{"gpt-5.3*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: fixed}},
		{"gpt-5.2-chat*", Model{Window: 128_000, MaxOutput: 16_384, Images: fixed}},
		{"gpt-5.2*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: fixed}},
		{"gpt-5.1-chat*", Model{Window: 128_000, MaxOutput: 16_384, Images: tiles}},
		{"gpt-5.1-codex-mini*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: mini}},
		{"gpt-5-chat*", Model{Window: 128_000, MaxOutput: 16_384, Images: tiles}},
		{"gpt-5-codex-mini* gpt-5-mini*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: mini}},
		{"gpt-5-nano*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: patched(150, limits{2048, 1536})}},
		{"gpt-5-pro*", Model{Window: 400_000, MaxOutput: 272_000, DefaultOutput: reasoning, Images: tiles}},
		{"gpt-5*", Model{Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: tiles}},
		{"gpt-oss*", Model{Window: 131_072, MaxOutput: 131_072, DefaultOutput: reasoning}},
		{"codex-mini*", Model{Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: oMini}},
		{"o1-mini*", Model{Window: 128_000, MaxOutput: 65_536, DefaultOutput: reasoning}},
		{"o1-preview*", Model{Window: 128_000, MaxOutput: 32_768, DefaultOutput: reasoning}},
		{"o1*", Model{Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: o}},
		{"o3-mini*", Model{Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning}},
		{"o3*", Model{Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: o}},
		{"o4*", Model{Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: oMini}},
	}
	for i := range rows {
		rows[i].CompletionCap = rows[i].names != "gpt-oss*" // served by others than OpenAI
	}
	return rows
}

// gpt4o returns OpenAI's models from gpt-4o to gpt-4.5, and its audio models.
func gpt4o() []row {
	const million = 1_047_576
	var (
		tiles  = tiled(85, 170)
		limits = limits{2048, 6144}
	)
	return []row{
		{"gpt-4.5*", Model{Window: 128_000, MaxOutput: 16_384, Images: tiles}},
		{"gpt-4.1-mini*", Model{Window: million, MaxOutput: 32_768, Images: patched(162, limits)}},
		{"gpt-4.1-nano*", Model{Window: million, MaxOutput: 32_768, Images: patched(246, limits)}},
		{"gpt-4.1*", Model{Window: million, MaxOutput: 32_768, Images: tiles}},
		{"gpt-4o-2024-05-13", Model{Window: 128_000, MaxOutput: 4_096, Images: tiles}},
		{"gpt-4o-realtime*", Model{Window: 32_000, MaxOutput: 4_096}},
		{"gpt-4o-mini-realtime*", Model{Window: 16_000, MaxOutput: 4_096}},
		{"gpt-4o-transcribe* gpt-4o-mini-transcribe*", Model{Window: 16_000, MaxOutput: 2_000}},
		{"gpt-4o-mini-tts*", Model{}},
		{"gpt-4o-mini*", Model{Window: 128_000, MaxOutput: 16_384, Images: tiled(2833, 5667)}},
		{"gpt-4o* chatgpt-4o*", Model{Window: 128_000, MaxOutput: 16_384, Images: tiles}},
		{"gpt-audio*", Model{Window: 128_000, MaxOutput: 16_384}},
		{"gpt-realtime-2*", Model{Window: 128_000, MaxOutput: 32_000}},
		{"gpt-realtime*", Model{Window: 32_000, MaxOutput: 4_096}},
		{"computer-use-preview*", Model{Window: 8_192, MaxOutput: 1_024, Images: tiled(65, 129)}},
	}
}

// older returns OpenAI's models before gpt-4o, and the row for unknown names that begin with
// gpt-.
func older() []row {
	tiles := tiled(85, 170)
	return []row{
		{"gpt-4-turbo* gpt-4-1106*", Model{Window: 128_000, MaxOutput: 4_096, Images: tiles}},
		{"gpt-4-0125*", Model{Window: 128_000, MaxOutput: 4_096}},
		{"gpt-4-vision*", Model{Window: 128_000, MaxOutput: 4_096, Images: tiles}},
		{"gpt-4-32k*", Model{Window: 32_768}},
		{"gpt-4 gpt-4-*", Model{Window: 8_192, MaxOutput: 8_192}},
		{"gpt-4*", Model{}}, // a later family of unknown size
		{"gpt-3.5-turbo-instruct* gpt-3.5-turbo-0613 gpt-3.5-turbo-0301", Model{Window: 4_096, MaxOutput: 4_096}},
		{"gpt-3.5*", Model{Window: 16_385, MaxOutput: 4_096}},
		{"gpt-35-turbo-instruct*", Model{Encoding: cl100k, Window: 4_096, MaxOutput: 4_096}},
		{"gpt-35*", Model{Encoding: cl100k, Window: 16_385, MaxOutput: 4_096}}, // Azure's spelling
		{"text-embedding-3* text-embedding-ada-002", Model{Window: 8_192}},
		{"davinci-002 babbage-002", Model{Encoding: cl100k, Window: 16_384, MaxOutput: 16_384}}, // newer than tiktoken's names
		{"text-davinci-001", Model{}},
		{"text-davinci-00*", Model{Encoding: p50k}}, // text-davinci-001 has a row before this one
		{"code-davinci* davinci curie babbage ada", Model{}},
		{"gpt-*", Model{Estimated: true}}, // unknown models
	}
}

// maxName is the longest name looked up, in bytes, because names come from clients. The longest
// names of cloud providers, those of Bedrock's profiles, are shorter.
const maxName = 256

// Lookup returns the first row of table that matches name. It ignores case and also tries the
// name without its surroundings: a prefix up to a slash or a vendor's dot (openai/gpt-4o,
// us.anthropic.claude-3, accounts/fireworks/models/llama-v3p1-8b), the frame of fine-tuned names
// (ft:gpt-4o-mini:org::id, curie:ft-org), and a suffix after a colon or an at sign (gpt-4:nitro,
// gpt-oss:20b). A row may also contain these. Without a match it returns the row Other, estimated
// with o200k_base, and false. Its time depends on the table, not on the length of name.
func Lookup(table []Model, name string) (Model, bool) {
	const frames = 12 // more than names at Vertex have
	var buf [frames]string
	forms := buf[:0]
	name = strings.TrimSpace(name[:min(len(name), maxName+1)])
	if len(name) > maxName {
		name = ""
	}
	for form := name; form != "" && len(forms) < frames; form = inner(form) {
		forms = append(forms, form)
	}
	for _, row := range table {
		prefix, open := strings.CutSuffix(row.Match, "*")
		for _, form := range forms {
			if len(form) >= len(prefix) && (open || len(form) == len(prefix)) && strings.EqualFold(form[:len(prefix)], prefix) {
				return row, true
			}
		}
	}
	return Model{Match: Other, Encoding: o200k, Estimated: true}, false
}

// inner returns name without its outermost frame (see Lookup); "" if it has none.
func inner(name string) string {
	if len(name) >= 3 && strings.EqualFold(name[:3], "ft:") {
		base, _, _ := strings.Cut(name[3:], ":")
		return base
	}
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	if i := strings.IndexAny(name, ":@"); i >= 0 {
		return name[:i]
	}
	if vendor, rest, ok := strings.Cut(name, "."); ok && !strings.ContainsAny(vendor, "0123456789") {
		return rest // the dot of a version comes after a digit
	}
	return ""
}

// Margin is the factor applied to counts by another encoding than the model's own: 10 % more.
const Margin = 1.1
