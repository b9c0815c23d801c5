package config

import (
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
)

// Chunks limit and place the messages that are built from a request's chunks.
type Chunks struct {
	MaxTokens Count                  `yaml:"max_tokens" min:"1" max:"10M"`
	Placement rewrite.ChunkPlacement `yaml:"placement" of:"before_conversation|before_last_user"`
	Oversize  chunks.Oversize        `yaml:"oversize" of:"exclude|refuse"`
}

// defaultChunks returns the defaults of chunks.
func defaultChunks() Chunks {
	return Chunks{MaxTokens: chunks.DefaultMaxTokens, Placement: rewrite.ChunksFirst, Oversize: chunks.OversizeExclude}
}

// A renderer says how matching chunks are rendered: a chunks.Rule.
type renderer struct {
	Tag        string      `yaml:"tag" need:"true"`
	When       whenChunk   `yaml:"when" need:"true"`
	Role       chunks.Role `yaml:"role,omitempty" of:"system|user|assistant"`
	Attributes []attribute `yaml:"attributes,omitempty,flow"`
	Body       string      `yaml:"body,omitempty"`
}

// whenChunk selects chunks.
type whenChunk struct {
	Type     chunks.Type `yaml:"type,omitempty" of:"system|agent|workflow|delegation|environment|working_flow|output|custom"`
	Subtype  string      `yaml:"subtype,omitempty"`
	Action   string      `yaml:"action,omitempty"`
	Metadata metadata    `yaml:"metadata,omitempty"`
}

// metadata are values by key: strings, maps or lists.
type metadata map[string]any

// DecodeYAML reads a map of strings, maps and lists.
func (m *metadata) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if _, isMap := n.(ast.MapNode); !isMap {
		d.Problem(n, key, "expected a map, got a %s", strictyaml.Shape(n))
		return
	}
	*m = entries(d, key, n)
}

func entries(d *strictyaml.Decoder, key string, n ast.Node) map[string]any {
	all := map[string]any{}
	d.Entries(key, n, func(name string, _, val ast.Node) {
		if v, ok := nested(d, strictyaml.Join(key, name), val); ok {
			all[name] = v
		}
	})
	return all
}

// nested reads a string, a variable that supplies one, a map or a list. It reports anything else.
func nested(d *strictyaml.Decoder, key string, n ast.Node) (v any, ok bool) {
	if !d.Readable(key, n) {
		return nil, false
	}
	if strictyaml.IsVariable(n) {
		text, _, ok := d.Variable(key, n)
		return text, ok
	}
	switch n := n.(type) {
	case ast.MapNode:
		return entries(d, key, n.(ast.Node)), true
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for i, item := range n.Values {
			at := key + "[" + strconv.Itoa(i) + "]"
			d.Note(at, item, item)
			v, ok := nested(d, at, item)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	}
	text, ok := strictyaml.Text(n)
	if !ok {
		d.Problem(n, key, "expected a text, a map or a list, got a %s", strictyaml.Shape(n))
	}
	return text, ok
}

// An attribute is a name, or a name and the field that it shows.
type attribute struct{ chunks.AttributeRule }

// MarshalYAML returns the attribute as it would be written by hand.
func (a attribute) MarshalYAML() (any, error) {
	if a.From == "" {
		return a.Name, nil
	}
	return yaml.MapSlice{{Key: a.Name, Value: a.From}}, nil
}

// DecodeYAML reads NAME or {NAME: metadata.KEY}.
func (a *attribute) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	const wants = "expected a name, or a map such as {name: metadata.key}"
	if _, isMap := n.(ast.MapNode); !isMap {
		text, ok := strictyaml.Text(n)
		if !ok {
			d.Problem(n, key, "%s, got a %s", wants, strictyaml.Shape(n))
			return
		}
		a.Name = text
		return
	}
	several := false
	d.Entries(key, n, func(name string, _, from ast.Node) {
		text, ok := strictyaml.Text(from)
		switch at := strictyaml.Join(key, name); {
		case a.Name != "" || several:
			several = true
		case !d.Readable(at, from):
		case !ok:
			d.Problem(from, at, "expected a field of a chunk, or metadata.KEY, got a %s", strictyaml.Shape(from))
		default:
			a.Name, a.From = name, text
		}
	})
	if several {
		d.Problem(n, key, "%s, got a map of several", wants)
	}
}

// chunksPolicy converts the settings for package rewrite. Defaults are left out, so that they do
// not change the hash of a policy.
func chunksPolicy(c Chunks, renderers []renderer) rewrite.ChunkPolicy {
	p := rewrite.ChunkPolicy{}
	if d := defaultChunks(); c != d {
		p.MaxTokens, p.Placement = int(c.MaxTokens), c.Placement
		if c.Oversize != d.Oversize {
			p.Oversize = c.Oversize
		}
	}
	for i := range renderers {
		p.Renderers = append(p.Renderers, renderers[i].rule())
	}
	return p
}

func (r *renderer) rule() chunks.Rule {
	rule := chunks.Rule{
		When: chunks.When{Type: r.When.Type, Subtype: r.When.Subtype, Action: r.When.Action, Metadata: r.When.Metadata},
		As:   r.Role, Tag: r.Tag, Body: r.Body,
	}
	for _, a := range r.Attributes {
		if a.Name != "" { // otherwise the problem was reported
			rule.Attributes = append(rule.Attributes, a.AttributeRule)
		}
	}
	return rule
}

// checkChunks reports renderers that cannot be used, each at the key that is wrong.
func checkChunks(renderers []renderer, problem func(key, format string, args ...any), at func(i int) string) {
	for i := range renderers {
		rule := renderers[i].rule()
		if err := rule.Check(); err != nil {
			bad := err.(*chunks.Error) //nolint:errorlint // Check returns nothing else
			problem(at(i)+"."+bad.Param, "%s", bad.Reason)
		}
	}
}
