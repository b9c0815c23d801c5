package answer

import "bytes"

// ServedBy holds the model and service tier that an answer reports; "" if it does not.
type ServedBy struct {
	Model string
	Tier  string // service_tier, which may determine the price
}

// maxName is the length in bytes of the longest name that is read.
const maxName = 128

// ServedBy returns the model and service tier that the answer reports. Call it after Usage.
func (r *UsageReader) ServedBy() ServedBy {
	return ServedBy{Model: r.named(`"model"`), Tier: r.named(`"service_tier"`)}
}

// named returns the last string value of a key. It must be a member of the answer or event, or of
// an object in it; anything deeper may be written by the model.
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

// maxDepth is how many objects may be closed after the value, as in an event of the messages route:
// {"type": …, "message": {"usage": {"service_tier": …}}}.
const maxDepth = 3

// usageTextOf returns the last string value of a key in a JSON object that ends with text.
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

// nameInBeginning returns the string value of a key in a JSON object that starts with text.
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
