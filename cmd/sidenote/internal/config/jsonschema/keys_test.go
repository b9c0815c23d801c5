package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidenote/cmd/sidenote/internal/config/jsonschema"
)

// eachProperty calls do with the schema of each key that a schema has, wherever it stands.
func eachProperty(at string, of any, do func(key string, property map[string]any)) {
	switch of := of.(type) {
	case []any:
		for _, one := range of {
			eachProperty(at, one, do)
		}
	case map[string]any:
		for word, one := range of {
			if properties, ok := one.(map[string]any); ok && word == "properties" {
				for key, property := range properties {
					do(at+"."+key, property.(map[string]any))
					eachProperty(at+"."+key, property, do)
				}
			} else if word != "default" {
				eachProperty(at, one, do)
			}
		}
	}
}

func document(t *testing.T, page string) (doc map[string]any) {
	t.Helper()
	text, err := jsonschema.Document(page)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Each key says what it is for, in words without marks. Its default is a value that the schema
// takes.
func TestEachKeyIsDescribed(t *testing.T) {
	compiler := validator.NewCompiler()
	compiler.DefaultDraft(validator.Draft2020)
	doc := document(t, read(t, page))
	keys, defaults := 0, 0
	eachProperty("", doc, func(key string, property map[string]any) {
		keys++
		text, _ := property["description"].(string)
		if len(text) < 8 || strings.ContainsAny(text, "`|[]") && !strings.Contains(text, "Default: [") || strings.Contains(text, "](") {
			t.Errorf("%s is described as %q", key, text)
		}
		value, ok := property["default"]
		if !ok {
			return
		}
		defaults++
		alone := map[string]any{"$defs": doc["$defs"], "allOf": []any{property}}
		place := "mem:///" + strings.ReplaceAll(key, ".", "/")
		if err := compiler.AddResource(place, alone); err != nil {
			t.Fatal(err)
		}
		s, err := compiler.Compile(place)
		if err == nil {
			err = s.Validate(value)
		}
		if err != nil {
			t.Errorf("the default of %s is %v: %v", key, value, err)
		}
	})
	if keys < 150 || defaults < 40 {
		t.Errorf("%d keys, %d with a default", keys, defaults)
	}
}

// What the tables say of a key, of keys in one row, of sections and of overrides.
func TestDescriptionsAreThoseOfThePage(t *testing.T) {
	doc := document(t, `| key | default | what it says |
|---|---|---|
| `+"`version`"+` | 1 | of this format |
| `+"`shutdown_grace` | `25s`"+` | how long; see [below](#x) |
| `+"`concurrency` | none | [requests](#y)"+` at once |

| key of policies.NAME | default | what it says |
|---|---|---|
| `+"`order`, `mode` | `pass`; `notice` sometimes | one of `a`"+` |

| section | what it holds |
|---|---|
| `+"`policies` | `default`"+` is one |

| other | default | what it says |
|---|---|---|
| `+"`timeouts`"+` | 1 | nothing |
`)
	got := map[string]any{}
	eachProperty("", doc, func(key string, property map[string]any) {
		if text, ok := property["description"]; ok {
			got[key] = []any{text, property["default"]}
		}
	})
	for key := range got {
		if strings.HasPrefix(key, ".env") || strings.HasPrefix(key, ".file") || strings.HasPrefix(key, ".type") || strings.HasPrefix(key, ".key") ||
			strings.HasPrefix(key, ".value") || strings.HasPrefix(key, ".filters") || key == ".default" {
			delete(got, key) // of $defs
		}
	}
	mode := []any{"one of a. Default: pass; notice sometimes", nil}
	want := map[string]any{
		".version":                  []any{"of this format. Default: 1", 1.0},
		".shutdown_grace":           []any{"how long. Written as a time from 1ms to 1h, as in 300ms, 5s or 10m. Default: 25s", "25s"},
		".concurrency":              []any{"requests at once. Written as a whole number from 1 to 1M, as in 200, 10k or 2M", nil},
		".policies":                 []any{"default is one", nil},
		".policies.order":           mode,
		".policies.mode":            mode,
		".policies.overrides.mode":  mode,
		".policies.overrides.order": mode,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
