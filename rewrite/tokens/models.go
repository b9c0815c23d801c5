package tokens

import "strings"

// A Model is one row of the model table.
type Model struct {
	Match     string // a name in lower case, or a prefix ending in *
	Encoding  string // that counts it
	Window    int    // tokens of context, input and output together; 0 is unknown
	MaxOutput int    // tokens of output at most; 0 is unknown
	Estimated bool   // no public tokenizer: counts need Estimate
}

// Other is the row of every model that no row matches.
const Other = "other"

// Builtin returns the built-in table, more special rows before more general
// ones. Sizes are those of platform.openai.com/docs/models, the smaller one where
// snapshots under one prefix differ.
func Builtin() []Model { return append(append(newer(), older()...), estimated()...) }

// newer are OpenAI's models since gpt-4o.
func newer() []Model {
	const (
		o       = "o200k_base"
		million = 1_047_576
	)
	return []Model{
		{Match: "gpt-5-chat*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-5.1-chat*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-5.2-chat*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-5.3-chat*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-5*", Encoding: o, Window: 400_000, MaxOutput: 128_000},
		{Match: "gpt-4.5*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-4.1*", Encoding: o, Window: million, MaxOutput: 32_768},
		{Match: "gpt-4o-2024-05-13", Encoding: o, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4o-realtime*", Encoding: o},
		{Match: "gpt-4o-mini-realtime*", Encoding: o},
		{Match: "gpt-4o-transcribe*", Encoding: o},
		{Match: "gpt-4o-mini-transcribe*", Encoding: o},
		{Match: "gpt-4o-mini-tts*", Encoding: o},
		{Match: "gpt-4o*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "chatgpt-4o*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-oss*", Encoding: o, Window: 131_072, MaxOutput: 131_072},
		{Match: "gpt-audio*", Encoding: o, Window: 128_000, MaxOutput: 16_384},
		{Match: "gpt-realtime*", Encoding: o},
		{Match: "codex-mini*", Encoding: o, Window: 200_000, MaxOutput: 100_000},
		{Match: "computer-use-preview*", Encoding: o, Window: 8_192, MaxOutput: 1_024},
		{Match: "o1-mini*", Encoding: o, Window: 128_000, MaxOutput: 65_536},
		{Match: "o1-preview*", Encoding: o, Window: 128_000, MaxOutput: 32_768},
		{Match: "o1*", Encoding: o, Window: 200_000, MaxOutput: 100_000},
		{Match: "o3*", Encoding: o, Window: 200_000, MaxOutput: 100_000},
		{Match: "o4*", Encoding: o, Window: 200_000, MaxOutput: 100_000},
	}
}

// older are OpenAI's models before it, and what else begins with gpt-.
func older() []Model {
	const o, c, p, r = "o200k_base", "cl100k_base", "p50k_base", "r50k_base"
	return []Model{
		{Match: "gpt-4-turbo*", Encoding: c, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4-1106*", Encoding: c, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4-0125*", Encoding: c, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4-vision*", Encoding: c, Window: 128_000, MaxOutput: 4_096},
		{Match: "gpt-4-32k*", Encoding: c, Window: 32_768},
		{Match: "gpt-4", Encoding: c, Window: 8_192, MaxOutput: 8_192},
		{Match: "gpt-4-*", Encoding: c, Window: 8_192, MaxOutput: 8_192},
		{Match: "gpt-4*", Encoding: o}, // a later family of unknown size
		{Match: "gpt-3.5-turbo-instruct*", Encoding: c, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5-turbo-0613", Encoding: c, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5-turbo-0301", Encoding: c, Window: 4_096, MaxOutput: 4_096},
		{Match: "gpt-3.5*", Encoding: c, Window: 16_385, MaxOutput: 4_096},
		{Match: "gpt-35*", Encoding: c, Window: 16_385, MaxOutput: 4_096}, // Azure's spelling
		{Match: "text-embedding-3*", Encoding: c, Window: 8_192},
		{Match: "text-embedding-ada-002", Encoding: c, Window: 8_192},
		{Match: "davinci-002", Encoding: c, Window: 16_384, MaxOutput: 16_384},
		{Match: "babbage-002", Encoding: c, Window: 16_384, MaxOutput: 16_384},
		{Match: "text-davinci-00*", Encoding: p},
		{Match: "code-davinci*", Encoding: p},
		{Match: "davinci", Encoding: r},
		{Match: "curie", Encoding: r},
		{Match: "babbage", Encoding: r},
		{Match: "ada", Encoding: r},
		{Match: "gpt-*", Encoding: o, Estimated: true}, // not known yet
	}
}

// estimated are the families without a tokenizer of OpenAI's, whose o200k is
// nearest to most of them.
func estimated() []Model {
	const o = "o200k_base"
	table := []Model{{Match: "claude-3*", Encoding: o, Window: 200_000, Estimated: true}}
	for _, family := range []string{
		"claude", "gemini", "gemma", "codegemma", "medgemma",
		"llama", "meta-llama", "codellama", "qwen", "qwq", "qvq",
		"mistral", "open-mistral", "mixtral", "open-mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral",
		"deepseek", "grok", "phi", "command", "nova", "kimi", "glm", "granite", "nemotron",
	} {
		table = append(table, Model{Match: family + "*", Encoding: o, Estimated: true})
	}
	return table
}

// Lookup returns the first row of table that matches name. Letter case, vendor
// prefixes (openai/gpt-4o, openrouter/openai/gpt-4o, anthropic.claude-3) and the
// frame of fine-tuned names (ft:gpt-4o-mini:org::id) are seen through, but a row
// may also spell them out. Without a match it returns the row Other, estimated
// with o200k_base, and false.
func Lookup(table []Model, name string) (Model, bool) {
	const frames = 8 // a name is a client's text: no more are taken off
	var buf [frames]string
	forms := buf[:0]
	for form := strings.ToLower(strings.TrimSpace(name)); form != "" && len(forms) < frames; form = inner(form) {
		forms = append(forms, form)
	}
	for _, row := range table {
		match := strings.ToLower(row.Match)
		for _, form := range forms {
			if matches(match, form) {
				return row, true
			}
		}
	}
	return Model{Match: Other, Encoding: "o200k_base", Estimated: true}, false
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// inner returns name without its outermost frame; "" once there is none.
func inner(name string) string {
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(name, "ft:"); ok {
		base, _, _ := strings.Cut(rest, ":")
		return base
	}
	for _, vendor := range []string{"us.", "eu.", "apac.", "global.", "amazon.", "anthropic.", "cohere.", "deepseek.", "google.", "meta.", "mistral.", "openai.", "qwen."} {
		if rest, ok := strings.CutPrefix(name, vendor); ok {
			return rest
		}
	}
	return ""
}

// Estimate adds the margin of 10 % for a model without a public tokenizer,
// rounded up.
func Estimate(n int) int { return n + (n+9)/10 }
