package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a list as LiteLLM publishes it: names of hosts, sizes that are no numbers, models
// that answer no chats.
const sample = `{
"sample_spec": {"max_input_tokens": "max input tokens", "mode": "one of: chat, embedding", "litellm_provider": "one of"},
"gpt-5": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 272000, "max_output_tokens": 128000},
"azure/gpt-5": {"litellm_provider": "azure", "mode": "chat", "max_input_tokens": 200000, "max_output_tokens": 128000},
"gpt-4o": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 128000, "max_output_tokens": 16384},
"ft:gpt-4o-2024-08-06": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1, "max_output_tokens": 1},
"us.anthropic.claude-opus-9-v1:0": {"litellm_provider": "bedrock_converse", "mode": "chat", "max_input_tokens": 1000000, "max_output_tokens": 64000},
"vertex_ai/claude-opus-9@default": {"litellm_provider": "vertex_ai", "mode": "chat", "max_input_tokens": 200000, "max_output_tokens": 64000},
"claude-opus-9": {"litellm_provider": "anthropic", "mode": "chat", "max_input_tokens": 2000000, "max_output_tokens": 128000},
"a/Open-70B": {"litellm_provider": "a", "mode": "chat", "max_input_tokens": 131072, "max_output_tokens": 131072},
"b/x/open-70b": {"litellm_provider": "b", "mode": "chat", "max_input_tokens": 131072, "max_output_tokens": 131072},
"c/open-70b": {"litellm_provider": "c", "mode": "chat", "max_input_tokens": 4096, "max_output_tokens": 4096},
"d/tied": {"litellm_provider": "d", "mode": "chat", "max_input_tokens": 32768},
"e/tied": {"litellm_provider": "e", "mode": "chat", "max_input_tokens": 40960, "max_output_tokens": 0},
"ollama/open-70b": {"litellm_provider": "ollama", "mode": "chat", "max_input_tokens": 2048, "max_output_tokens": 2048},
"qwen3.5-9b": {"litellm_provider": "a", "mode": "chat", "max_input_tokens": 262144, "max_output_tokens": null},
"text-embedding-9": {"litellm_provider": "openai", "mode": "embedding", "max_input_tokens": 8191},
"unsized": {"litellm_provider": "a", "mode": "chat"},
"1024-x-1024/50": {"litellm_provider": "a", "mode": "chat", "max_input_tokens": 77}
}`

const made = `models:
  - {match: "claude-opus-9", window: 2000000, max_output_tokens: 128000}
  - {match: "claude-opus-9-v1", window: 1000000, max_output_tokens: 64000}
  - {match: "gpt-4o", window: 128000, max_output_tokens: 16384}
  - {match: "gpt-5", window: 400000, max_output_tokens: 128000}
  - {match: "open-70b", window: 131072}
  - {match: "qwen3.5-9b", window: 262144}
  - {match: "tied", window: 32768}
`

// The table has the date and name of its list, and a row for each name: what its vendor says of
// a model, or most hosts. A list in JSON and one in a wheel give the same rows.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	list, wheel := filepath.Join(dir, "list.json"), filepath.Join(dir, "litellm-9.whl")
	if err := os.WriteFile(list, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(wheel) //nolint:gosec // a folder of this test
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(f)
	w, err := archive.Create(packaged)
	if err == nil {
		_, err = w.Write([]byte(sample))
	}
	if err != nil || archive.Close() != nil || f.Close() != nil {
		t.Fatal(err)
	}
	for file, source := range map[string]string{list: "list.json", wheel: "litellm-9.whl"} {
		var out strings.Builder
		if err := run(&out, file, "2026-11-28"); err != nil {
			t.Fatal(err)
		}
		want := "# Made by deploy/models; do not edit.\ndate: 2026-11-28\nsource: \"" + source + "\"\n" + made
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", source, out.String(), want)
		}
	}
}

// What is no list is refused, and nothing is written.
func TestNoList(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"html.json": "<html>", "empty.json": "{}", "array.json": "[]", "other.json": `{"a": 1, "b": {"mode": "chat"}}`, "no.whl": "PK"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := run(&out, file, "2026-11-28"); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, wrote %q", name, err, out.String())
		}
	}
	if err := run(&strings.Builder{}, filepath.Join(dir, "none.json"), "2026-11-28"); err == nil {
		t.Error("a file that is not there: no error")
	}
	if err := run(&strings.Builder{}, "", "28.11.2026"); err == nil || !strings.Contains(err.Error(), `"28.11.2026"`) {
		t.Errorf("a date in another form: %v", err)
	}
}
