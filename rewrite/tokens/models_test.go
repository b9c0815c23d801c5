package tokens_test

import (
	"testing"

	"sidenote/rewrite/tokens"
)

func TestLookup(t *testing.T) {
	table := tokens.Builtin()
	f := func(name, match, encoding string, window int, estimated bool) {
		t.Helper()
		m, ok := tokens.Lookup(table, name)
		if m.Match != match || m.Encoding != encoding || m.Window != window || m.Estimated != estimated || ok != (match != tokens.Other) {
			t.Errorf("Lookup(%q) = %+v, %v", name, m, ok)
		}
	}
	f("gpt-5", "gpt-5*", "o200k_base", 400_000, false)
	f("GPT-5-mini-2025-08-07", "gpt-5*", "o200k_base", 400_000, false)
	f("gpt-5-chat-latest", "gpt-5-chat*", "o200k_base", 128_000, false)
	f("gpt-4.1-nano", "gpt-4.1*", "o200k_base", 1_047_576, false)
	f("gpt-4o", "gpt-4o*", "o200k_base", 128_000, false)
	f("chatgpt-4o-latest", "chatgpt-4o*", "o200k_base", 128_000, false)
	f("gpt-4", "gpt-4", "cl100k_base", 8_192, false)
	f("gpt-4-0613", "gpt-4-*", "cl100k_base", 8_192, false)
	f("gpt-4-turbo-2024-04-09", "gpt-4-turbo*", "cl100k_base", 128_000, false)
	f("gpt-35-turbo", "gpt-35*", "cl100k_base", 16_385, false)
	f("o3-mini", "o3*", "o200k_base", 200_000, false)
	f("ft:gpt-4o-mini-2024-07-18:acme::abc", "gpt-4o*", "o200k_base", 128_000, false)
	f("openai/ft:gpt-3.5-turbo-0613:acme::abc", "gpt-3.5-turbo-0613", "cl100k_base", 4_096, false)
	f("openrouter/openai/gpt-4o:free", "gpt-4o*", "o200k_base", 128_000, false)
	f("openai/gpt-oss-120b", "gpt-oss*", "o200k_base", 131_072, false)
	f("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3*", "o200k_base", 200_000, true)
	f("claude-opus-4-1", "claude*", "o200k_base", 0, true)
	f("meta-llama/Llama-3.3-70B-Instruct", "llama*", "o200k_base", 0, true)
	f("text-embedding-3-small", "text-embedding-3*", "cl100k_base", 8_192, false)
	f("demo", "other", "o200k_base", 0, true)
	f("", "other", "o200k_base", 0, true)
	f("/", "other", "o200k_base", 0, true)
	f("ft:", "other", "o200k_base", 0, true)
}

// A row of the configuration before the table wins, also by a name that it spells
// out whole.
func TestLookupFirstRowWins(t *testing.T) {
	table := append([]tokens.Model{{Match: "Azure/gpt-4o", Encoding: "cl100k_base"}}, tokens.Builtin()...)
	if m, _ := tokens.Lookup(table, "azure/gpt-4o"); m.Encoding != "cl100k_base" {
		t.Errorf("Lookup(azure/gpt-4o) = %+v", m)
	}
	if m, _ := tokens.Lookup(table, "gpt-4o"); m.Encoding != "o200k_base" {
		t.Errorf("Lookup(gpt-4o) = %+v", m)
	}
}

// No row is shadowed by an earlier one, and every encoding exists.
func TestBuiltinRowsAreReachable(t *testing.T) {
	for _, row := range tokens.Builtin() {
		if m, ok := tokens.Lookup(tokens.Builtin(), row.Match); !ok || m != row {
			t.Errorf("row %q is shadowed by %q", row.Match, m.Match)
		}
		encoding(t, row.Encoding)
	}
}

func TestEstimateRoundsUp(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 2, 10: 11, 11: 13, 1000: 1100} {
		if got := tokens.Estimate(n); got != want {
			t.Errorf("Estimate(%d) = %d, want %d", n, got, want)
		}
	}
}
