package tokens

import (
	"slices"
	"strings"
)

// A Model is one row of the model table.
type Model struct {
	Match         string // a name in lower case, or a prefix ending in *
	Encoding      string // encoding that counts it
	Window        int    // tokens of context, input and output together; 0 is unknown
	MaxOutput     int    // tokens of output at most; 0 is unknown
	DefaultOutput int    // tokens to reserve for an answer without a limit in request or policy; 0 if unknown
	Estimated     bool   // no public tokenizer: counts need a margin
	NoSystem      bool   // messages of the role system are refused
	Images        ImageRule
}

// Other is the row of models that match no row of the table.
const Other = "other"

// reasoning is how many tokens OpenAI recommends to reserve for reasoning and answer
// (its guide "Reasoning models", "Allocating space for reasoning").
const reasoning = 25_000

const (
	o200k  = "o200k_base"
	cl100k = "cl100k_base"
	p50k   = "p50k_base"
	r50k   = "r50k_base"
)

// Builtin returns the built-in table, special rows before general ones. Sizes are those
// of developers.openai.com/api/docs/models and of the other vendors' pages; where
// models under one prefix differ, the smaller one.
//
// A deployment may have any name, as on Azure. Its row is Other until a row of the
// configuration names it.
func Builtin() []Model {
	table := slices.Concat(gpt5(), gpt4o(), older(), anthropic(), families())
	refusing := strings.Fields(refuseSystem)
	for i := range table {
		table[i].NoSystem = slices.Contains(refusing, table[i].Match)
	}
	return table
}

// refuseSystem lists the rows of models that answer a system message with an error:
// OpenAI's first two for reasoning; Gemma up to 2, by its chat template, and Gemma 3 at
// Google (elsewhere it reads such a message as the user's); Google's models that make
// images; Mistral's first models, by the chat templates that they came with and at
// Bedrock.
const refuseSystem = "o1-mini* o1-preview* gemma gemma-1* gemma-7b* gemma-2* gemma2* codegemma* gemma-3* gemma3* " +
	"gemini-2.0-flash-exp-image* gemini-2.0-flash-preview-image* " +
	"mistral-7b-instruct-v0 mistral-7b-instruct-v0.1* mistral-7b-instruct-v0.2* mixtral-8x7b-instruct*"

// gpt5 returns OpenAI's models from gpt-5 on, and its earlier ones for reasoning.
func gpt5() []Model {
	const million, most = 1_050_000, 128_000
	var (
		tiles    = tiled(70, 140)
		mini     = patched(120, limits{2048, 1536})
		fixed    = patched(120, limits{2048, 6144}) // whatever the detail
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
	table := []Model{
		{Match: "gpt-6*", Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: newest},
		{Match: "gpt-5.6*", Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: unscaled},
		{Match: "gpt-5.5*", Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: larger},
		{Match: "gpt-5.4-mini*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: sized},
		{Match: "gpt-5.4-nano*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: sized},
		{Match: "gpt-5.4*", Window: million, MaxOutput: most, DefaultOutput: reasoning, Images: sized},
		{Match: "gpt-5.3-chat*", Window: 128_000, MaxOutput: 16_384, Images: fixed},
		{Match: "gpt-5.3-codex-spark*", Window: 128_000, DefaultOutput: reasoning},
		{Match: "gpt-5.3*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: fixed},
		{Match: "gpt-5.2-chat*", Window: 128_000, MaxOutput: 16_384, Images: fixed},
		{Match: "gpt-5.2*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: fixed},
		{Match: "gpt-5.1-chat*", Window: 128_000, MaxOutput: 16_384, Images: tiles},
		{Match: "gpt-5.1-codex-mini*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: mini},
		{Match: "gpt-5-chat*", Window: 128_000, MaxOutput: 16_384, Images: tiles},
		{Match: "gpt-5-codex-mini*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: mini},
		{Match: "gpt-5-mini*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: mini},
		{Match: "gpt-5-nano*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: patched(150, limits{2048, 1536})},
		{Match: "gpt-5-pro*", Window: 400_000, MaxOutput: 272_000, DefaultOutput: reasoning, Images: tiles},
		{Match: "gpt-5*", Window: 400_000, MaxOutput: most, DefaultOutput: reasoning, Images: tiles},
		{Match: "gpt-oss*", Window: 131_072, MaxOutput: 131_072, DefaultOutput: reasoning},
		{Match: "codex-mini*", Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: oMini},
		{Match: "o1-mini*", Window: 128_000, MaxOutput: 65_536, DefaultOutput: reasoning},
		{Match: "o1-preview*", Window: 128_000, MaxOutput: 32_768, DefaultOutput: reasoning},
		{Match: "o1*", Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: o},
		{Match: "o3-mini*", Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning},
		{Match: "o3*", Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: o},
		{Match: "o4*", Window: 200_000, MaxOutput: 100_000, DefaultOutput: reasoning, Images: oMini},
	}
	for i := range table {
		table[i].Encoding = o200k
	}
	table[0].Estimated = true // OpenAI has named no tokenizer of gpt-6
	return table
}

// gpt4o returns OpenAI's models from gpt-4o to gpt-4.5, and those for audio.
func gpt4o() []Model {
	const million = 1_047_576
	var (
		tiles  = tiled(85, 170)
		limits = limits{2048, 6144}
	)
	table := []Model{
		{Match: "gpt-4.5*", Window: 128_000, MaxOutput: 16_384, Images: tiles},
		{Match: "gpt-4.1-mini*", Window: million, MaxOutput: 32_768, Images: patched(162, limits)},
		{Match: "gpt-4.1-nano*", Window: million, MaxOutput: 32_768, Images: patched(246, limits)},
		{Match: "gpt-4.1*", Window: million, MaxOutput: 32_768, Images: tiles},
		{Match: "gpt-4o-2024-05-13", Window: 128_000, MaxOutput: 4_096, Images: tiles},
		{Match: "gpt-4o-realtime*", Window: 32_000, MaxOutput: 4_096},
		{Match: "gpt-4o-mini-realtime*", Window: 16_000, MaxOutput: 4_096},
		{Match: "gpt-4o-transcribe*", Window: 16_000, MaxOutput: 2_000},
		{Match: "gpt-4o-mini-transcribe*", Window: 16_000, MaxOutput: 2_000},
		{Match: "gpt-4o-mini-tts*"},
		{Match: "gpt-4o-mini*", Window: 128_000, MaxOutput: 16_384, Images: tiled(2833, 5667)},
		{Match: "gpt-4o*", Window: 128_000, MaxOutput: 16_384, Images: tiles},
		{Match: "chatgpt-4o*", Window: 128_000, MaxOutput: 16_384, Images: tiles},
		{Match: "gpt-audio*", Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-realtime-2*", Window: 128_000, MaxOutput: 32_000},
		{Match: "gpt-realtime*", Window: 32_000, MaxOutput: 4_096},
		{Match: "computer-use-preview*", Window: 8_192, MaxOutput: 1_024, Images: tiled(65, 129)},
	}
	for i := range table {
		table[i].Encoding = o200k
	}
	return table
}

// older returns OpenAI's models before gpt-4o, and the row for unknown names that begin
// with gpt-.
func older() []Model {
	tiles := tiled(85, 170)
	return []Model{
		{Match: "gpt-4-turbo*", Encoding: cl100k, Window: 128_000, MaxOutput: 4_096, Images: tiles},
		{Match: "gpt-4-1106*", Encoding: cl100k, Window: 128_000, MaxOutput: 4_096, Images: tiles},
		{Match: "gpt-4-0125*", Encoding: cl100k, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4-vision*", Encoding: cl100k, Window: 128_000, MaxOutput: 4_096, Images: tiles},
		{Match: "gpt-4-32k*", Encoding: cl100k, Window: 32_768},
		{Match: "gpt-4", Encoding: cl100k, Window: 8_192, MaxOutput: 8_192},
		{Match: "gpt-4-*", Encoding: cl100k, Window: 8_192, MaxOutput: 8_192},
		{Match: "gpt-4*", Encoding: o200k}, // a later family of unknown size
		{Match: "gpt-3.5-turbo-instruct*", Encoding: cl100k, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5-turbo-0613", Encoding: cl100k, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5-turbo-0301", Encoding: cl100k, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5*", Encoding: cl100k, Window: 16_385, MaxOutput: 4_096},
		{Match: "gpt-35-turbo-instruct*", Encoding: cl100k, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-35*", Encoding: cl100k, Window: 16_385, MaxOutput: 4_096}, // Azure's spelling
		{Match: "text-embedding-3*", Encoding: cl100k, Window: 8_192},
		{Match: "text-embedding-ada-002", Encoding: cl100k, Window: 8_192},
		{Match: "davinci-002", Encoding: cl100k, Window: 16_384, MaxOutput: 16_384},
		{Match: "babbage-002", Encoding: cl100k, Window: 16_384, MaxOutput: 16_384},
		{Match: "text-davinci-001", Encoding: r50k},
		{Match: "text-davinci-00*", Encoding: p50k},
		{Match: "code-davinci*", Encoding: p50k},
		{Match: "davinci", Encoding: r50k},
		{Match: "curie", Encoding: r50k},
		{Match: "babbage", Encoding: r50k},
		{Match: "ada", Encoding: r50k},
		{Match: "gpt-*", Encoding: o200k, Estimated: true}, // not known yet
	}
}

// maxName is the longest name, in bytes, that is looked up, because names come from
// clients. The longest that a cloud gives, those of Bedrock's profiles, are shorter.
const maxName = 256

// Lookup returns the first row of table that matches name. It ignores letter case and
// tries the name also without what surrounds it: what stands before a slash or a
// vendor's dot (openai/gpt-4o, us.anthropic.claude-3,
// accounts/fireworks/models/llama-v3p1-8b), the frame of fine-tuned names
// (ft:gpt-4o-mini:org::id, curie:ft-org), and what follows a colon or an at sign
// (gpt-4:nitro, gpt-oss:20b). A row may also spell these out. Without a match it
// returns the row Other, estimated with o200k_base, and false. Its time depends on the
// table, not on the length of name.
func Lookup(table []Model, name string) (Model, bool) {
	const frames = 12 // more than the names of Vertex have
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
		return rest // a version's dot has a digit before it
	}
	return ""
}

// Margin is the factor for counts by another encoding than the model's own: 10 % more.
const Margin = 1.1
