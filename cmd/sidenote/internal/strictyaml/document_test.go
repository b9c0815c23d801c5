package strictyaml_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"pgregory.net/rapid"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// leaves lists the keys and scalars below a node with path, text and position, in order.
func leaves(path string, n ast.Node, to *[]string) {
	p := strictyaml.Position(n)
	switch n := n.(type) {
	case ast.MapNode:
		for it := n.MapRange(); it.Next(); {
			key := strictyaml.Position(it.Key())
			at := path + "." + it.Key().String()
			*to = append(*to, fmt.Sprintf("%s at %d:%d", at, key.Line, key.Column))
			leaves(at, it.Value(), to)
		}
	case *ast.SequenceNode:
		for i, item := range n.Values {
			leaves(fmt.Sprintf("%s[%d]", path, i), item, to)
		}
	case *ast.LiteralNode:
		*to = append(*to, fmt.Sprintf("%s = %q at %d:%d", path, n.Value.Value, p.Line, p.Column))
	default:
		*to = append(*to, fmt.Sprintf("%s = %s %q at %d:%d", path, n.Type(), n.GetToken().Value, p.Line, p.Column))
	}
}

// read lists the content of a text, sorted by the keys of its root, and counts its parts.
func read(text string, size int) (content map[string][]string, parts int, err *strictyaml.Error) {
	content = map[string][]string{}
	add := func(key string, n ast.Node) {
		var list []string
		leaves(key, n, &list)
		content[key] = append(content[key], list...)
	}
	for part, err := range strictyaml.PartsOf(text, size) {
		if err != nil {
			return nil, parts, err
		}
		parts++
		root, isMap := part.Node.(ast.MapNode)
		if part.Key != "" || !isMap {
			add(part.Key, part.Node)
			continue
		}
		for it := root.MapRange(); it.Next(); {
			add(it.Key().String(), it.Value())
		}
	}
	return content, parts, nil
}

const whole = 1 << 30

// A text that is read in parts gives the same result as when read whole, with the same lines and
// columns.
func TestPartsAreTheWhole(t *testing.T) {
	var b strings.Builder
	b.WriteString("# many\nupstream: https://u.test\n\nmodels:\n- match: a\n- {match: b}\npolicies:\n")
	for i := range 300 {
		fmt.Fprintf(&b, "    p%d: {context_tokens: %d} # no\n", i, i)
	}
	b.WriteString("tenants: # all of them\n\n")
	for i := range 300 {
		fmt.Fprintf(&b, "  t-%d:\n\n    # of %d\n    keys: [{sha256: \"%064x\",\n      name: n}]\n    text: |+\n      a: b\n\n    other: >-\n      c\n      d\n", i, i, i)
		if i%7 == 0 {
			b.WriteString("# here too\n\n    more:\n    - 1\n    - x: 'it''s'\n\n")
		}
	}
	b.WriteString("shutdown_grace: 5s\n")
	for _, text := range []string{b.String(), strings.ReplaceAll(b.String(), "\n", "\r\n"), strings.TrimSuffix(b.String(), "shutdown_grace: 5s\n")} {
		want, _, err := read(text, whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 100, 1000, 10_000} {
			got, parts, err := read(text, size)
			if err != nil || parts < len(text)/size/200 || parts < 3 {
				t.Fatalf("size %d: %d parts, %v", size, parts, err)
			}
			for key := range want {
				if g, w := strings.Join(got[key], "\n"), strings.Join(want[key], "\n"); g != w {
					t.Errorf("size %d: %s is\n%.2000s\nwant\n%.2000s", size, key, g, w)
				}
			}
		}
	}
}

var placeOfValue = regexp.MustCompile(`("|null) at \d+:\d+`)

var lines = rapid.SampledFrom([]string{
	"a:", "b: 1", "tenants:", "policies: # c", "- x", "  e1:", "  e2: v", "  e3: {a: 1}", "  e4: [a, b]", "  e5: |", "  e6: \"open", "  close\"", "  k: close\"", "  e7: [a,", "  b: c]", "  e8: {x: 1,",
	"  y: 2}", "    n: 1", "    m: |", "      text", "    o: >+", "   odd: 1", " less: 1", "", "  ", "# c", "  # c", "      # c", "    - i", "    - j: 1", "  - l", "  'q': 1", "  plain", "    folded", "  e9: 'open",
	"  k2: it's", "\tx: 1", "  ? e", "  : f", "---", "...", "  <<: x", "  e10: &x 1", "  e11: *x", "  e12: !!str 1", "  null: 1", "  e13: 2,000", "    {", "    }", "  : v", "  e14: \"a\\", "   b\"", "  e15:x",
})

// misindented reports whether a text may have a multi-line value that is not indented deeper than
// its key. YAML forbids that, but the parser accepts it.
func misindented(text string) bool { return strings.ContainsAny(text, `"'[{`) }

// Any text reads the same in parts and whole.
func TestPartsNeverDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(lines, 2, 30).Draw(t, "lines"), "\n")
		if rapid.Bool().Draw(t, "ended") {
			text += "\n"
		}
		size := rapid.IntRange(1, 60).Draw(t, "size")
		want, _, wantErr := read(text, whole)
		got, _, err := read(text, size)
		if wantErr != nil && strings.Contains(wantErr.Reason, "could not find multi-line content") {
			return // YAML allows empty values, the parser only at the end of a text
		}
		if err == nil && wantErr != nil || err != nil && wantErr == nil && !misindented(text) {
			t.Fatalf("in parts: %v, as one: %v\n%s", err, wantErr, text)
		}
		// The parser's positions of blanks and of multi-line texts depend on what follows.
		if err == nil && placeOfValue.ReplaceAllString(fmt.Sprint(got), "") != placeOfValue.ReplaceAllString(fmt.Sprint(want), "") {
			t.Fatalf("in parts\n%v\nas one\n%v\n%s", got, want, text)
		}
	})
}

// An error far down is reported at its line, and a text that looks like entries causes none.
func TestFarDown(t *testing.T) {
	text := func(middle string) string {
		entries := strings.Repeat("  e: {a: 1}\n", 50)
		return "tenants:\n" + entries + middle + "\n" + entries
	}
	for middle, want := range map[string]string{
		"  e: {a: 1":                        "53:3: is not YAML: ',' or '}' must be specified",
		"  e: [a":                           "53:3: is not YAML: ',' or ']' must be specified",
		"  e: \"open":                       "52:6: is not YAML: could not find end character of double-quoted text",
		"  e: 'one\n\n  looks: like\n   a'": "<nil>",
		"top: \"open":                       "52:6: is not YAML: could not find end character of double-quoted text",
	} {
		_, _, err := read(text(middle), 64)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "<nil>" {
			t.Errorf("%q gives %v\nwant %s", middle, got, want)
		}
	}
}

// A directive is not a document of its own.
func TestDirective(t *testing.T) {
	if got, _, err := read("%YAML 1.2\n---\na: 1\n", whole); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
