package server_test

import (
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/rewrite/tokens"
)

// A configured prefix keeps the built-in values of each model that it covers, and remains one row
// in labels.
func TestPrefixKeepsWhatItLeavesOpen(t *testing.T) {
	for _, rows := range [][]config.ModelRow{
		{{Match: "Claude-*", Encoding: "cl100k_base", Estimated: true}},
		{{Match: "claude-*", Encoding: "cl100k_base", Estimated: true}, {Match: "claude-opus-*", Window: 1}},
	} {
		table := server.ModelTable{Rows: config.ModelTable(rows, config.ModelRow{Match: "claude-new", Window: 300_000}), Encodings: tokens.New()}
		for name, window := range map[string]int{"claude-opus-4-5": 200_000, "vendor/claude-opus-4.6:free": 1_000_000, "claude-3-haiku": 200_000, "claude-new": 300_000, "claude-unheard-of": 0} {
			if m := table.Model(name); m.Row != "claude-*" || m.Window != window || m.Encoding != "cl100k_base" || !m.Estimated {
				t.Errorf("%s: row %s, window %d, %s, estimated %t", name, m.Row, m.Window, m.Encoding, m.Estimated)
			}
		}
		if m := table.Model("gpt-4o"); m.Row != "gpt-4o*" || m.Encoding != "o200k_base" || m.Estimated {
			t.Errorf("gpt-4o: row %s, %s, estimated %t", m.Row, m.Encoding, m.Estimated)
		}
	}
	table := server.ModelTable{Rows: config.ModelTable([]config.ModelRow{{Match: "*", Estimated: true}}), Encodings: tokens.New()}
	if m := table.Model("gpt-4"); m.Row != "*" || m.Encoding != "cl100k_base" || m.Window != 8192 || !m.Estimated {
		t.Errorf("gpt-4 under *: %+v", m)
	}
}
