// Package modelrows is the part of the configuration that says how models are counted.
package modelrows

import (
	"cmp"
	"fmt"
	"strings"

	"sidenote/cmd/sidenote/internal/config/value"
	"sidenote/rewrite/tokens"
)

// A Row comes before the built-in model table.
type Row struct {
	Match           string      `yaml:"match" need:"true"` // exact, or a prefix that ends in *
	Encoding        string      `yaml:"encoding" of:"o200k_base|cl100k_base|p50k_base|r50k_base"`
	Window          value.Count `yaml:"window" min:"1" max:"100M"`
	MaxOutputTokens value.Count `yaml:"max_output_tokens" min:"1" max:"100M"`
	DefaultOutput   value.Count `yaml:"default_output_tokens" min:"1" max:"100M"` // reserved where nobody says how long an answer may be
	Estimated       bool        `yaml:"estimated"`                                // Encoding is not the model's own
	Roles           string      `yaml:"roles" of:"all|no_system"`                 // of messages that it takes
	// OutputField is the member of a chat that caps its answer.
	OutputField string `yaml:"output_field" of:"max_tokens|max_completion_tokens"`
}

// noSystem is the Roles of a model that refuses messages of the role system.
const noSystem = "no_system"

// completionTokens is the OutputField of a model that refuses max_tokens.
const completionTokens = "max_completion_tokens"

// Check reports rows that nobody could have meant.
func Check(rows []Row, report func(key, format string, args ...any)) {
	seen := map[string]string{}
	for i, m := range rows {
		key := fmt.Sprintf("models[%d]", i)
		switch {
		case m.Match == "":
			continue // reported as missing
		case strings.Contains(strings.TrimSuffix(m.Match, "*"), "*"):
			report(key+".match", "%q has a * that is not at its end", m.Match)
		case m.Encoding == "" && m.Window == 0 && m.MaxOutputTokens == 0 && m.DefaultOutput == 0 && !m.Estimated && m.Roles == "" && m.OutputField == "":
			report(key, "says nothing of %q; give encoding, window, max_output_tokens, roles or output_field", m.Match)
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

// Table is the rows, then the built-in ones. What a row leaves open is filled in from the
// built-in row that its name matches.
func Table(rows []Row) []tokens.Model {
	builtin := tokens.Builtin()
	table := make([]tokens.Model, 0, len(rows)+len(builtin))
	for _, m := range rows {
		row, _ := tokens.Lookup(builtin, strings.TrimSuffix(m.Match, "*"))
		row.Match = strings.ToLower(m.Match)
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
		table = append(table, row)
	}
	return append(table, builtin...)
}
