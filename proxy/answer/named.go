package answer

import "bytes"

// Named are what an answer tells of itself beside its usage; "" where it does not.
type Named struct {
	Model string
	Tier  string // service_tier: by which of its prices the upstream bills
}

// maxName is how long a name is that is read, in bytes.
const maxName = 128

// Named returns what the answer tells of itself. Call it after Usage.
func (r *UsageReader) Named() Named {
	return Named{Model: r.named(`"model"`), Tier: r.named(`"service_tier"`)}
}

// named returns the last text of a key. It is a member of the answer, or of an event of a stream,
// or of an object in one of these; what stands deeper may be a model's own words.
func (r *UsageReader) named(key string) string {
	if r.undecodable {
		return ""
	}
	if !r.stream {
		if name := usageTextOf(r.end, key); name != "" || !r.cut {
			return name
		}
		return nameInBeginning(r.begin, key)
	}
	for end := len(r.end); ; {
		i := bytes.LastIndex(r.end[:end], []byte(key))
		if i < 0 {
			break
		}
		begin := bytes.LastIndexByte(r.end[:i], '\n') + 1
		line := r.end[begin:]
		if n := bytes.IndexByte(r.end[i:], '\n'); n >= 0 {
			line = r.end[begin : i+n]
		}
		if name := usageTextOf(line, key); name != "" {
			return name
		}
		end = begin
	}
	for line := range bytes.Lines(r.begin) {
		if name := usageTextOf(line, key); name != "" {
			return name
		}
	}
	return ""
}

// maxDepth is how many objects end behind a name, such as that of the model of a stream of
// messages: {"type": …, "message": {"usage": {"service_tier": …}}}.
const maxDepth = 3

// usageTextOf returns the last text of a key of a JSON object that ends with text.
func usageTextOf(text []byte, key string) string {
	for end := len(text); ; {
		i := bytes.LastIndex(text[:end], []byte(key))
		if i < 1 {
			return ""
		}
		end = i
		c := cursor{text: text, i: i + len(key)}
		if !isSpace(text[i-1]) && text[i-1] != ',' && text[i-1] != '{' || !c.take(':') || c.peek() != '"' {
			continue
		}
		name := c.str()
		if n := depth(text[c.i:]); !c.bad && len(name) <= maxName && n >= 1 && n <= maxDepth {
			return string(name)
		}
	}
}

// nameInBeginning returns the text of a key of the JSON object that begins so.
func nameInBeginning(text []byte, key string) (name string) {
	c := cursor{text: text}
	c.object(func(member []byte) {
		if string(member) == key[1:len(key)-1] && c.peek() == '"' {
			if b := c.str(); !c.bad && len(b) <= maxName {
				name = string(b)
			}
			return
		}
		c.skip()
	})
	return name
}
