package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidenote/cmd/sidenote/internal/config"
)

func compile(t *testing.T) *validator.Schema {
	t.Helper()
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.DefaultDraft(validator.Draft2020)
	if err := c.AddResource("mem:///sidenote.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///sidenote.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate validates a file against the schema. It converts it to JSON first, as editors do.
func validate(t *testing.T, s *validator.Schema, text string) error {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	v, err := validator.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// loadJsonschema returns the decoder's error for a file.
func loadJsonschema(text string) error {
	_, err := config.Load(config.Source{
		Path: "c.yaml", NoSecrets: true,
		Read: func(path string) ([]byte, error) {
			if path == "c.yaml" {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Glob: func(string) ([]string, error) { return nil, nil },
		Env: func(name string) (string, bool) {
			return map[string]string{"HOME": "/h", "SIZE": "10"}[name], name == "HOME" || name == "SIZE"
		},
	})
	return err
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The example and the configurations in the pages are valid by the schema too.
func TestSchemaTakesExamples(t *testing.T) {
	s := compile(t)
	texts := []string{read(t, "../../../../deploy/sidenote.example.yaml")}
	for _, page := range []string{"README.md", "cmd/sidenote/README.md", "cmd/sidenote/CONFIG.md", "deploy/README.md", "cache/README.md", "retrieval/README.md", "rewrite/README.md", "proxy/README.md"} {
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../../../"+page), -1) {
			if loadJsonschema(m[1]) == nil { // others are fragments, or files of compose
				texts = append(texts, m[1])
			}
		}
	}
	if len(texts) < 3 {
		t.Fatalf("found %d configurations", len(texts))
	}
	for _, text := range texts {
		if err := validate(t, s, text); err != nil {
			t.Errorf("%v\nin %s", err, text)
		}
	}
}

// Every alternative notation is accepted.
func TestSchemaTakesEachForm(t *testing.T) {
	s := compile(t)
	for _, text := range []string{
		"upstream: http://u.test", "upstream: {base_url: {env: U, default: http://u.test}}", "upstream: HTTP://u.test\nlisten: :80\nidentity: {open: 'true'}",
		"upstream: http://u.test\nstate: ':memory:'\nredis: redis://h.test", "upstream: http://u.test\nconcurrency: '2 k'\ncache: {memory: 64 MiB, ttl: 1h30m}",
		"upstream: http://u.test\npolicies: {default: {context_tokens: {env: SIZE}, sources: low, components: [{name: 1, text: 2, priority: '3'}], retrieval: {score_threshold: 1e-3}}}",
		"upstream: http://u.test\npolicies: {default: {mode: tools, tools: [recall]}, b: {tools: {offer: [recall, search_files], max_rounds: '2', max_tokens: 8k}}}",
		"upstream: http://u.test\npolicies: {default: {mode: staged, stages: careful}, b: {stages: {chain: {env: CHAIN, default: brief}}}, c: {stages: [{name: a, user_prompt_template: '{{QUESTION}}', temperature: '.5', max_tokens: 1k}]}}",
		"upstream: http://u.test\nshutdown_delay: 0\nexplain: 5\ntimeouts: {idle: 1.5s}", "upstream: http://u.test\ninclude: [{path: 'x/*.yaml', optional: true}]",
		"upstream: http://u.test\nknowledge: {1: ./a, b: {engine: embedded, relevance_threshold: .5}, c: {path: ~/c, attributes: {a: 1, b: [x]}}}",
		"upstream: http://u.test\nknowledge: {a: {engine: postgres, user: u, url: postgresql://h.test/d}, b: {engine: postgres, user: {env: U}, url: [postgres://h.test/d, {env: V, default: postgres://i.test/d}]}}",
		"upstream: http://u.test\nknowledge: {a: {engine: opensearch, user: {file: u}, password: {env: P}, url: {env: V, default: HTTPS://h.test}, index: i, columns: {id: 1, text: t, attribute_columns: {a: b}, ttl: 5m}}}",
		"upstream: http://u.test\nknowledge: ./docs", "upstream: http://u.test\nknowledge: ~/notes",
	} {
		if err := loadJsonschema(text); err != nil {
			t.Errorf("%s: the decoder refuses it: %v", text, err)
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: the schema refuses it: %v", text, err)
		}
	}
}

// The schema refuses the same unknown words as the decoder.
func TestSchemaKnowsTheWords(t *testing.T) {
	s := compile(t)
	const up = "upstream: http://u.test\n"
	for _, text := range []string{
		"policies: {default: {filters: [{type: equals, key: a, value: b}]}}", "policies: {default: {filters: [{type: EQ, key: a, value: b}]}}",
		"policies: {default: {filters: [{type: and, filters: [{type: contains, key: a, value: b}]}]}}", "policies: {default: {mode: injects}}", "policies: {default: {placement: bottom}}",
		"policies: {default: {citations: no}}", "include: [{path: a.yaml, may: [everything]}]", "policies: {default: {components: [{name: a, text: b, priority: highest}]}}",
	} {
		if err := loadJsonschema(up + text); err == nil {
			t.Errorf("%s: the decoder takes it", text)
		}
		if err := validate(t, s, up+text); err == nil {
			t.Errorf("%s: the schema takes it", text)
		}
	}
}

// The description and the example name every word of include[].may.
func TestIncludeMayNamesEveryWord(t *testing.T) {
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	may := root["properties"].(map[string]any)["include"].(map[string]any)["items"].(map[string]any)
	if forms, ok := may["anyOf"].([]any); ok {
		may = forms[len(forms)-1].(map[string]any)
	}
	may = may["properties"].(map[string]any)["may"].(map[string]any)
	items := may["items"].(map[string]any)
	if forms, ok := items["anyOf"].([]any); ok {
		items = forms[0].(map[string]any)
	}
	words := items["enum"].([]any)
	example := read(t, "../../../../deploy/sidenote.example.yaml")
	example = example[strings.Index(example, "may: ["):]
	example = example[:strings.Index(example, "\n    knowledge:")]
	if len(words) < 7 {
		t.Fatalf("include[].may knows %v", words)
	}
	for _, word := range words {
		if !strings.Contains(may["description"].(string), word.(string)) {
			t.Errorf("the description of include[].may does not name %s", word)
		}
		if !regexp.MustCompile(`\b` + word.(string) + `\b`).MatchString(example) {
			t.Errorf("the example does not name %s of include[].may", word)
		}
	}
}

// The schema refuses only what the decoder refuses: each line of the example is tried with each of
// many values. It does refuse errors such as misspelt keys.
func TestSchemaIsNoStricterThanDecoder(t *testing.T) {
	s := compile(t)
	lines := strings.Split(read(t, "../../../../deploy/sidenote.example.yaml"), "\n")
	scalar := regexp.MustCompile(`^(\s*(?:- )?[a-z_]+: )([^\s{\[#][^#]*?|"[^"]*")(\s+#.*)?$`)
	values := []string{"null", "''", "0", "1", "-1", "1.5", "true", "off", "x", "10k", "64MiB", "5s", "0s", "2000-01-01", "{}", "[]", "[x]", "{env: SIZE}", "{env: SIZE, default: 3}", "{env: 1, more: 2}", "{default: 1}"}
	tried, refused, least, every := 0, 0, 100, 8 // each line gets some values, and each value some lines
	switch {
	case os.Getenv("SIDENOTE_LONG") != "":
		every = 1
	case testing.Short():
		least, every = 30, 120
	}
	for i, line := range lines {
		m := scalar.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for j, value := range values {
			if (i+j)%every > 0 {
				continue
			}
			lines[i] = m[1] + value
			text := strings.Join(lines, "\n")
			tried++
			if err := validate(t, s, text); err != nil {
				refused++
				if loadJsonschema(text) == nil {
					t.Errorf("line %d, %s: the decoder takes it, the schema says %v", i+1, lines[i], err)
				}
			} else if value == "null" || value == "{}" || value == "[]" || value == "{default: 1}" {
				t.Errorf("line %d: the schema takes %s", i+1, lines[i])
			}
		}
		lines[i] = line
	}
	if tried < least || refused < tried/4 {
		t.Errorf("tried %d, of which %d were refused", tried, refused)
	}
}

// Both refuse misspelt, missing and repeated keys.
func TestSchemaRefuses(t *testing.T) {
	s := compile(t)
	const up = "upstream: http://u.test\n"
	for _, text := range []string{
		"listen: 127.0.0.1:1\nupstrem: http://u.test", up + "policies: {default: {contxt_tokens: 5}}", up + "policies: {default: {context_tokens: 0}}",
		up + "policies: {default: {mode: on}}", up + "policies: {default: {tools: recall}}", up + "policies: {default: {tools: [recal]}}",
		up + "policies: {default: {tools: {max_rounds: 17}}}", up + "policies: {default: {retrieval: {deadline: 5}}}", up + "policies: {Default: {mode: off}}",
		"upstream: {api_key: {env: K}}", "upstream: {base_url: http://u.test, api_key: sk-plain}", "upstream: {base_url: http://u.test, api_key: {env: K, default: x}}",
		up + "tenants: {a: {keys: [{sha256: abc}]}}", up + "tenants: {a: {keys: [{expires: 2030-01-01}]}}", up + "models: [{window: 5}]",
		up + "knowledge: {}", up + "version: 2", up + "concurrency: [1]", fmt.Sprintf("%scache: {ttl: %q}", up, "ten minutes"),
	} {
		if loadJsonschema(text) == nil {
			t.Errorf("%s: the decoder takes it", text)
		}
		if validate(t, s, text) == nil {
			t.Errorf("%s: the schema takes it", text)
		}
	}
}
