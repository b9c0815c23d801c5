package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite/goldentest"
)

const chartSchema = "../../../../deploy/helm/values.schema.json"

// The schema of the chart's values ends with that of the configuration, so that both refuse unknown
// keys. It is written like CONFIG.md.
func TestPageOfChartValuesIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte("\n    \"config\": "))
	if at < 0 {
		t.Fatalf("%s: no definition of config", chartSchema)
	}
	whole, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(whole, &schema); err != nil {
		t.Fatal(err)
	}
	definitions := schema["$defs"].(map[string]any)
	for _, key := range []string{"$defs", "$schema", "title", "minProperties"} { // the chart's default is an empty one
		delete(schema, key)
	}
	var lines []string
	for _, name := range append([]string{"config"}, slices.Sorted(maps.Keys(definitions))...) {
		of := any(schema)
		if name != "config" {
			of = definitions[name]
		}
		line, err := json.Marshal(withoutTexts(of, false))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("    %q: %s", name, line))
	}
	goldentest.Text(t, chartSchema, string(text[:at+1])+strings.Join(lines, ",\n")+"\n  }\n}\n")
}

// withoutTexts returns a part of a schema without descriptions and defaults, which are for editors.
// The keys of named parts are names.
func withoutTexts(part any, named bool) any {
	switch part := part.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range part {
			if named || key != "description" && key != "default" {
				out[key] = withoutTexts(value, key == "properties" && !named)
			}
		}
		return out
	case []any:
		out := make([]any, len(part))
		for i, value := range part {
			out[i] = withoutTexts(value, false)
		}
		return out
	}
	return part
}
