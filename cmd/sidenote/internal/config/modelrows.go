package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sidenote/rewrite/tokens"
)

// A ModelRow is a row of models; such rows take precedence over the built-in table.
type ModelRow struct {
	Match           string `yaml:"match" need:"true"` // exact, or a prefix that ends in *
	Encoding        string `yaml:"encoding" of:"o200k_base|cl100k_base|p50k_base|r50k_base"`
	Window          Count  `yaml:"window" min:"1" max:"100M"`
	MaxOutputTokens Count  `yaml:"max_output_tokens" min:"1" max:"100M"`
	DefaultOutput   Count  `yaml:"default_output_tokens" min:"1" max:"100M"` // reserved if the request sets no limit of its answer
	Estimated       bool   `yaml:"estimated"`                                // Encoding is not the model's own
	Roles           string `yaml:"roles" of:"all|no_system"`                 // message roles that it accepts
	// OutputField is the member of a chat that caps its answer.
	OutputField string `yaml:"output_field" of:"max_tokens|max_completion_tokens"`
	Temperature string `yaml:"temperature" of:"any|fixed"`       // whether it accepts one
	Reasoning   string `yaml:"reasoning" of:"none|fixed|effort"` // before it answers
	Tools       string `yaml:"tools" of:"functions|xml|none"`    // how tools are passed to it
	Results     string `yaml:"search_results" of:"cited|none"`   // whether it cites blocks of that type by itself
	// PromptCache is how its prompts are cached.
	PromptCache tokens.PromptCache `yaml:"prompt_cache" of:"none|prefix|breakpoints|cache_control"`
}

// noSystem is the Roles of a model that rejects system messages.
const noSystem = "no_system"

// citedResults is the Results of a model that cites search results.
const citedResults = "cited"

// completionTokens is the OutputField of a model that rejects max_tokens.
const completionTokens = "max_completion_tokens"

// A File is the value of models_file: the path of a file of rows, with its content.
type File struct {
	Path   string // absolute once read
	Date   Date
	Source string
	Rows   []ModelRow
}

// UnmarshalText sets the path.
func (f *File) UnmarshalText(text []byte) error {
	*f = File{Path: string(text)}
	return nil
}

// MarshalText returns the path with the date and number of rows.
func (f File) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

func (f File) String() string {
	if f.Path == "" || f.Date.IsZero() {
		return f.Path
	}
	return fmt.Sprintf("%s of %s, %d rows", f.Path, f.Date.Format(time.DateOnly), len(f.Rows))
}

// A Content is the content of a models_file. Date and Models are required.
type Content struct {
	Date   Date       `yaml:"date"`   // of the list it was made from
	Source string     `yaml:"source"` // for people
	Models []ModelRow `yaml:"models"`
}

// fixedTemperature is the Temperature of a model that rejects other values.
const fixedTemperature = "fixed"

// checkModels reports rows that make no sense.
func checkModels(rows []ModelRow, report func(key, format string, args ...any)) {
	seen := map[string]string{}
	for i, m := range rows {
		key := fmt.Sprintf("models[%d]", i)
		switch {
		case m.Match == "":
			continue // reported as missing
		case strings.Contains(strings.TrimSuffix(m.Match, "*"), "*"):
			report(key+".match", "%q has a * that is not at its end", m.Match)
		case m.Encoding == "" && m.Window == 0 && m.MaxOutputTokens == 0 && m.DefaultOutput == 0 && !m.Estimated && m.Roles == "" && m.OutputField == "" && m.Temperature == "" && m.Reasoning == "" && m.Tools == "" && m.PromptCache == "" && m.Results == "":
			report(key, "says nothing of %q; give encoding, window, max_output_tokens, roles, output_field, temperature, reasoning, tools, search_results or prompt_cache", m.Match)
		case m.Window > 0 && m.MaxOutputTokens > m.Window:
			report(key+".max_output_tokens", "%d is more than the window of %d", m.MaxOutputTokens, m.Window)
		}
		if m.MaxOutputTokens > 0 && m.DefaultOutput > m.MaxOutputTokens {
			report(key+".default_output_tokens", "%d is more than max_output_tokens, %d", m.DefaultOutput, m.MaxOutputTokens)
		}
		if before, ok := seen[m.Match]; ok {
			report(key+".match", "%q is also %s, which wins", m.Match, before)
			continue
		}
		seen[m.Match] = key
	}
}

// ModelTable returns rows, then those of a file, then the built-in ones. What a row leaves open is
// taken from the first matching row after its own group.
func ModelTable(rows []ModelRow, file ...ModelRow) []tokens.Model {
	return before(rows, before(file, tokens.Builtin()))
}

// before returns rows, completed from table, followed by table. A prefix can cover models that
// differ in what it leaves open, such as the windows of claude-*. So it becomes one row for each
// row of table that it covers, and one for all other models.
func before(rows []ModelRow, table []tokens.Model) []tokens.Model {
	all := make([]tokens.Model, 0, len(rows)+len(table))
	for _, m := range rows {
		match := strings.ToLower(m.Match)
		prefix, open := strings.CutSuffix(match, "*")
		for _, row := range table {
			if open && row.Match != match && strings.HasPrefix(row.Match, prefix) {
				row.Configured = match
				all = append(all, m.over(row))
			}
		}
		row, _ := tokens.Lookup(table, prefix)
		row.Match, row.Configured = match, ""
		all = append(all, m.over(row))
	}
	return append(all, table...)
}

// over returns row with the settings of m.
func (m *ModelRow) over(row tokens.Model) tokens.Model {
	if m.Encoding != "" {
		row.Encoding, row.Estimated = m.Encoding, false
	}
	row.Estimated = row.Estimated || m.Estimated
	row.Window = cmp.Or(int(m.Window), row.Window)
	row.MaxOutput = cmp.Or(int(m.MaxOutputTokens), row.MaxOutput)
	row.DefaultOutput = cmp.Or(int(m.DefaultOutput), row.DefaultOutput)
	if m.Roles != "" {
		row.NoSystem = m.Roles == noSystem
	}
	if m.OutputField != "" {
		row.CompletionCap = m.OutputField == completionTokens
	}
	if m.Temperature != "" {
		row.FixedTemperature = m.Temperature == fixedTemperature
	}
	row.Reasoning = cmp.Or(tokens.Reasoning(m.Reasoning), row.Reasoning)
	row.PromptCache = cmp.Or(m.PromptCache, row.PromptCache)
	if m.Results != "" {
		row.SearchResults = m.Results == citedResults
	}
	for _, use := range [...]tokens.ToolUse{tokens.ToolFunctions, tokens.ToolXML, tokens.ToolNone} {
		if m.Tools == use.String() {
			row.Tools = use
		}
	}
	return row
}
