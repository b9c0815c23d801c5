package chunks

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"sidenote/rewrite/chat"
)

// The limits of chunks and options in requests.
const (
	MaxChunks  = 10_000
	maxTokens  = 1 << 30
	maxMembers = 256 // of a JSON object, such as metadata
	maxName    = 64  // bytes of a key shown in an error
)

// Parse parses the JSON list in the body field sidenote.chunks; null is an empty list. The error
// is an *Error that names the chunk's index and field.
//
//	[{"id": "1", "type": "agent", "role": "user", "content": "Hi!"}, …]
//
// The fields are id, type, role, action, subtype, content, priority, truncatable, created_at and
// metadata. Optional ones may be null.
func Parse(list []byte) ([]Chunk, error) {
	p := parser{Reader: chat.NewReader(list)}
	all := p.chunks()
	return all, p.end("chunks")
}

// ParseOptions parses the JSON object in the body field sidenote.context. The error is an *Error
// that names the option. Types are checked here, ids only by Build.
func ParseOptions(object []byte) (Options, error) {
	p := parser{Reader: chat.NewReader(object)}
	o := p.options()
	return o, p.end("context")
}

// A parser reads the JSON form of chunks and options. Its input may be invalid JSON.
type parser struct {
	chat.Reader
	bad error // the first mistake
}

// wrong records the first mistake and stops the reader.
func (p *parser) wrong(param, format string, args ...any) {
	if p.bad == nil {
		p.bad = wrong(param, format, args...)
		p.Stop()
	}
}

// end returns the first mistake, or a syntax error.
func (p *parser) end(param string) error {
	if p.bad != nil {
		return p.bad
	}
	if err := p.End(); err != nil {
		return wrong(param, "%s", err.Message)
	}
	return nil
}

func (p *parser) chunks() []Chunk {
	all := []Chunk{}
	if !p.is("chunks", chat.KindArray) {
		return all
	}
	p.Array(func(i int) {
		if i == MaxChunks {
			p.wrong("chunks", "more than %d", MaxChunks)
			return
		}
		all = append(all, Chunk{})
		p.chunk(&all[i], fmt.Sprintf("chunks[%d]", i))
		if err := all[i].check(i); err != nil && p.bad == nil {
			p.bad = err
			p.Stop()
		}
	})
	return all
}

// is reports whether the next value is of the kind want. It skips null and refuses all other
// kinds.
func (p *parser) is(param string, want chat.Kind) bool {
	k := p.Kind()
	if k == want {
		return true
	}
	p.Value()
	if k != chat.KindNull {
		p.wrong(param, "%s, not %s", k, want)
	}
	return false
}

// members reads an object and refuses duplicate keys.
func (p *parser) members(at string, member func(param, name string)) {
	var names []string
	p.Object(func(name string) {
		param := at + "." + name[:min(len(name), maxName)]
		if slices.Contains(names, name) {
			p.wrong(param, "key %.40q is repeated in one object", name)
			return
		}
		if len(names) == maxMembers {
			p.wrong(at, "more than %d keys", maxMembers)
			return
		}
		names = append(names, name)
		member(param, name)
		if p.LoneSurrogate() {
			p.wrong(param, "escaped lone surrogate")
		}
	})
}

func (p *parser) chunk(c *Chunk, at string) {
	if p.Kind() != chat.KindObject {
		p.wrong(at, "%s, not an object", p.Kind())
		return
	}
	p.members(at, func(param, name string) {
		switch name {
		case "id":
			c.ID = p.text(param)
		case "type":
			c.Type = Type(p.text(param))
		case "role":
			c.Role = p.text(param)
		case "action":
			c.Action = p.text(param)
		case "subtype":
			c.Subtype = p.text(param)
		case "content":
			c.Content = p.content(param)
		case "priority":
			c.Priority = json.Number(p.number(param))
		case "truncatable":
			c.NoTruncate = !p.flag(param, true)
		case "created_at":
			c.CreatedAt = p.moment(param)
		case "metadata":
			p.metadata(c, param)
		default:
			p.wrong(param, "unknown field; use id, type, role, action, subtype, content, priority, truncatable, created_at or metadata")
		}
	})
}

// text reads a string, "" for null.
func (p *parser) text(param string) string {
	if !p.is(param, chat.KindString) {
		return ""
	}
	s := p.Text()
	if !utf8.ValidString(s) {
		p.wrong(param, "not valid UTF-8")
	}
	return s
}

// content reads a string or any other JSON value except null.
func (p *parser) content(param string) Content {
	switch p.Kind() {
	case chat.KindString:
		return Text(p.text(param))
	case chat.KindNull:
		p.wrong(param, "null; a content is a string or any other JSON value")
		return Content{}
	}
	return p.json(param)
}

// json reads any value as a Content.
func (p *parser) json(param string) Content {
	v := p.value(param)
	if p.bad != nil {
		return Content{}
	}
	c, err := JSON(v)
	if err != nil {
		p.wrong(param, "%v", err)
	}
	return c
}

// value reads any value and returns its JSON.
func (p *parser) value(param string) []byte {
	v := p.Value()
	switch {
	case p.TooDeep():
		p.wrong(param, "nested too deep")
	case !utf8.Valid(v):
		p.wrong(param, "not valid UTF-8")
	}
	return v
}

// number reads a whole number as written, "" for null. Chunk.check refuses other numbers.
func (p *parser) number(param string) string {
	if !p.is(param, chat.KindNumber) {
		return ""
	}
	return string(p.Value())
}

// flag reads true or false; null is the value for null.
func (p *parser) flag(param string, null bool) bool {
	if !p.is(param, chat.KindBool) {
		return null
	}
	return string(p.Value()) == "true"
}

// moment reads a time in any notation.
func (p *parser) moment(param string) string {
	if p.Kind() == chat.KindNumber {
		return string(p.Value())
	}
	return p.text(param)
}

// metadata reads an object with arbitrary JSON values. It omits null values.
func (p *parser) metadata(c *Chunk, param string) {
	if !p.is(param, chat.KindObject) {
		return
	}
	c.Metadata = map[string]any{}
	p.members(param, func(param, name string) {
		switch p.Kind() {
		case chat.KindString:
			c.Metadata[name] = p.text(param)
		case chat.KindNull:
			p.Value()
		case chat.KindBool:
			c.Metadata[name] = p.flag(param, false)
		case chat.KindNumber:
			c.Metadata[name] = json.Number(p.json(param).text)
		default:
			text := p.json(param).text
			c.Metadata[name] = decoded(text)
			if c.texts == nil {
				c.texts = map[string]string{}
			}
			c.texts[name] = text
		}
	})
}

func (p *parser) options() (o Options) {
	if !p.is("context", chat.KindObject) {
		return o
	}
	p.members("context", func(param, name string) {
		switch name {
		case "max_tokens":
			o.MaxTokens = p.tokens(param)
		case "system_prompt":
			o.SystemPrompt = p.text(param)
		case "include_system":
			o.NoSystem = !p.flag(param, true)
		case "include_environment":
			o.NoEnvironment = !p.flag(param, true)
		case "exclude_types":
			for _, t := range p.strings(param) {
				o.ExcludeTypes = append(o.ExcludeTypes, Type(t))
			}
		case "include_only_chunk_ids":
			o.Only = p.strings(param)
		case "fit":
			o.Fit = Fit(p.text(param))
		case "truncate":
			o.Truncate = p.flag(param, false)
		case "oversize":
			o.Oversize = Oversize(p.text(param))
		default:
			p.wrong(param, "unknown option; use max_tokens, system_prompt, include_system, include_environment, exclude_types, include_only_chunk_ids, fit, truncate or oversize")
		}
	})
	if err := o.checkWords(); err != nil && p.bad == nil {
		p.bad = err
		p.Stop()
	}
	return o
}

// tokens reads a number of tokens, 0 for null.
func (p *parser) tokens(param string) (n int) {
	text := p.number(param)
	if text == "" {
		return 0
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil || n < 1 || n > maxTokens {
		p.wrong(param, "%.40s is not a whole number from 1 to %d", text, maxTokens)
	}
	return n
}

// strings reads a list of strings, nil for null.
func (p *parser) strings(param string) []string {
	if !p.is(param, chat.KindArray) {
		return nil
	}
	all := []string{}
	p.Array(func(i int) {
		at := fmt.Sprintf("%s[%d]", param, i)
		if k := p.Kind(); k != chat.KindString {
			p.wrong(at, "%s, not a string", k)
			return
		}
		if i == MaxChunks {
			p.wrong(param, "more than %d", MaxChunks)
			return
		}
		all = append(all, p.text(at))
	})
	return all
}
