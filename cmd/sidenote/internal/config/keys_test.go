package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite/goldentest"
)

const page = "../../CONFIG.md"

// CONFIG.md is up to date with the table of keys. If not,
// go test ./cmd/sidenote/internal/config -run Page -update writes it.
func TestPageIsUpToDate(t *testing.T) { goldentest.Text(t, page, config.Page()) }

// The published schema is up to date, too; the same command writes it.
func TestSchemaPageIsUpToDate(t *testing.T) {
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Text(t, "../../../../deploy/sidenote.schema.json", string(text))
}

// property returns the schema of a key such as "policies.NAME.overrides[].models".
func property(doc map[string]any, key string) map[string]any {
	at := doc
	for part := range strings.SplitSeq(strings.ReplaceAll(key, "[]", ""), ".") {
		at = below(at, part)
		if at == nil {
			return nil
		}
	}
	return at
}

// below returns the schema of a key below a schema, in the alternative that has it.
func below(at map[string]any, name string) map[string]any {
	if forms, ok := at["anyOf"].([]any); ok {
		for _, form := range forms {
			if found := below(form.(map[string]any), name); found != nil {
				return found
			}
		}
		return nil
	}
	if items, ok := at["items"].(map[string]any); ok {
		return below(items, name)
	}
	if name == "NAME" {
		values, _ := at["additionalProperties"].(map[string]any)
		return values
	}
	properties, _ := at["properties"].(map[string]any)
	found, _ := properties[name].(map[string]any)
	return found
}

// eachProperty calls do with the schema of each key below a schema.
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

func document(t *testing.T) (doc map[string]any) {
	t.Helper()
	text, err := config.JSONSchema()
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Each key has a description without marks, and a default that the schema accepts.
func TestEachKeyIsDescribed(t *testing.T) {
	compiler := validator.NewCompiler()
	compiler.DefaultDraft(validator.Draft2020)
	doc := document(t)
	keys, defaults := 0, 0
	eachProperty("", doc, func(key string, property map[string]any) {
		keys++
		text, _ := property["description"].(string)
		sentence, _, _ := strings.Cut(text, " Default: ")
		if len(text) < 6 || strings.Contains(text, "`") || strings.Contains(text, "](") || !strings.HasSuffix(sentence, ".") {
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

// A description combines the sentence, the unit and the default, also if a key repeats another.
func TestDescriptions(t *testing.T) {
	doc := document(t)
	for key, want := range map[string][]any{
		"version":                            {"Version of this file format. Default: 1", 1.0},
		"shutdown_grace":                     {"How long answers in progress may continue after SIGTERM. Written as a duration from 1ms to 1h, as in 300ms, 5s or 10m. Default: 25s", "25s"},
		"redis.pool_size":                    {"Connections; in a cluster, per node. Written as a whole number from 1 to 10k, as in 200, 10k or 2M. Default: 10 per core", nil},
		"policies":                           {"What requests get, by policy name; default applies to every tenant that names no other.", nil},
		"policies.NAME.on_empty":             {"When nothing relevant is found: pass, notice (tell the model), refuse (answer empty_answer without a model). Default: pass; notice with grounding: strict", nil},
		"policies.NAME.overrides[].escape":   {"What is escaped in documents: tags (text that looks like Sidenote's tags), or all (every <). Default: tags", "tags"},
		"upstreams.NAME.cert":                {"PEM file of the client certificate presented to the upstream.", nil},
		"tenants.NAME.limits.usd_per_month":  {"US dollars per month, by prices. Default: unlimited", nil},
		"mcp.tls.key":                        {"PEM file with its private key.", nil},
		"prices[].tiers.NAME.cache_write_1h": {"The same for one hour (Anthropic). Default: 2 × input", nil},
	} {
		p := property(doc, key)
		if p == nil || p["description"] != want[0] || p["default"] != want[1] {
			t.Errorf("%s: %q, default %v", key, p["description"], p["default"])
		}
	}
}

// The defaults in the table equal those of the code.
func TestDefaultsAreThoseOfTheCode(t *testing.T) {
	doc := document(t)
	compared := 0
	compare := func(prefix string, defaults any) {
		text, err := yaml.Marshal(defaults)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		for key, value := range flat(prefix, tree) {
			p := property(doc, key)
			if p == nil || slices.Contains([]string{"", "0", "false", "[]", "map[]", "<nil>"}, value) || key == "policies.NAME.empty_answer" || strings.HasPrefix(key, "upstream.timeouts.") {
				continue
			}
			said := fmt.Sprint(p["default"])
			if p["default"] == nil {
				_, said, _ = strings.Cut(p["description"].(string), " Default: ")
				said, _, _ = strings.Cut(said, ",")
			}
			if compared++; written(said) != written(value) {
				t.Errorf("the default of %s is %s, not %s", key, value, said)
			}
		}
	}
	compare("", config.Default())
	compare("policies.NAME", config.DefaultPolicy())
	if compared < 55 {
		t.Errorf("compared %d defaults only", compared)
	}
}

// flat returns the values of a tree by path.
func flat(at string, tree any) map[string]string {
	branches, ok := tree.(map[string]any)
	if !ok {
		return map[string]string{at: fmt.Sprint(tree)}
	}
	values := map[string]string{}
	for key, value := range branches {
		maps.Copy(values, flat(strictyaml.Join(at, key), value))
	}
	return values
}

// written normalizes a value that can be written in several ways.
func written(value string) string {
	if d, err := time.ParseDuration(value); err == nil {
		return d.String()
	}
	var p config.Priority
	if err := p.UnmarshalText([]byte(value)); err == nil {
		return strconv.Itoa(int(p))
	}
	var c config.Count
	if err := c.UnmarshalText([]byte(value)); err == nil {
		return strconv.Itoa(int(c))
	}
	return value
}

// The page has each key of the configuration, or refers to the section with the same keys.
func TestPageHasEachKey(t *testing.T) {
	text := read(t, page)
	rows, at := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " `"); ok {
			at, _, _ = strings.Cut(heading, "`")
		}
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ := strings.Cut(row, "`")
			rows[strictyaml.Join(at, key)] = true
		}
	}
	missing := 0
	for _, key := range leaves(reflect.TypeFor[config.Config](), "") {
		if !rows[key] && !slices.ContainsFunc([]string{
			"upstreams.NAME.", "admin.tls.", "telemetry.tls.", "mcp.tls.", "budgets.allowance.", "tenants.NAME.limits.", "prices[].tiers.NAME.",
			"policies.NAME.default_price.", "policies.NAME.overrides[].",
		}, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			missing++
			t.Errorf("CONFIG.md does not name the key %s", key)
		}
	}
	if len(rows)-missing < 220 {
		t.Errorf("found %d keys only", len(rows))
	}
}

// leaves lists the keys with scalar values.
func leaves(t reflect.Type, prefix string) (keys []string) {
	switch t {
	case reflect.TypeFor[config.Secret](), reflect.TypeFor[config.RedisURL](), reflect.TypeFor[config.ProxyURL](), reflect.TypeFor[config.Login]():
		return nil
	}
	switch t.Kind() {
	case reflect.Slice:
		return leaves(t.Elem(), prefix+"[]")
	case reflect.Map:
		return leaves(t.Elem(), prefix+".NAME")
	case reflect.Struct:
	default:
		return nil
	}
	for _, f := range strictyaml.Fields(t) {
		at := strictyaml.Join(prefix, f.Key)
		below := leaves(f.Type, at)
		if len(below) == 0 {
			keys = append(keys, at)
		}
		keys = append(keys, below...)
	}
	return keys
}
