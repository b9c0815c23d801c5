package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
)

// when.metadata accepts strings, maps and lists at any depth. Blank, duplicate or non-string
// values are refused at their position.
func TestWhenMetadataIsNested(t *testing.T) {
	load := func(metadata string) (map[string]any, error) {
		c, err := config.Load(disk{"c.yaml": "upstream: http://u.test\npolicies: {default: {renderers: [{tag: t, when: {metadata: " + metadata + "}}]}}"}.source("c.yaml"))
		if err != nil {
			return nil, err
		}
		p, _ := c.Tenant("default")
		return p.Rewrite.Chunks.Renderers[0].When.Metadata, nil
	}
	type object = map[string]any
	for text, want := range map[string]object{
		"{tool: sql}": {"tool": "sql"},
		"{success: true, count: 1.0, name: 'off'}":    {"success": "true", "count": "1.0", "name": "off"},
		"{room: {floor: 2, door: {open: true}}}":      {"room": object{"floor": "2", "door": object{"open": "true"}}},
		"{tags: [a, {b: c}, [1]], room: {x: [true]}}": {"tags": []any{"a", object{"b": "c"}, []any{"1"}}, "room": object{"x": []any{"true"}}},
		"{key: {env: KEY}, room: {key: {env: KEY}}}":  {"key": "sk-canary", "room": object{"key": "sk-canary"}},
	} {
		got, err := load(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	const key = "policies.default.renderers[0].when.metadata"
	for text, want := range map[string]string{
		"{room: {floor: }}": key + ".room.floor: is blank", "{room: {}}": key + ".room: is blank", "{tags: [a, '']}": key + ".tags[1]: is blank",
		"[a]": key + ": expected a map, got a list", "{room: {a: 1, a: 2}}": key + ".room.a: is here twice", "{room: {a: &x 1}}": key + ".room.a: anchors",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "c.yaml:2:") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
