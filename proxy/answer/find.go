package answer

import (
	"bytes"
)

// maxObject is the size in bytes of the largest usage object that is read. OpenAI's has 350 bytes;
// those of gateways that add prices have 1,000.
const maxObject = 4 << 10

// inStream returns the last usage object in the last within bytes of text, the end of a stream. ok
// is false if there is none.
func inStream(text []byte, within int) (o usageObject, ok bool) {
	for end, from := len(text), max(0, len(text)-within); ; {
		i := lastKey(text, from, end)
		if i < 0 {
			return o, false
		}
		line, begin := text, bytes.LastIndexByte(text[:i], '\n')+1
		if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
			line = text[:i+n]
		}
		if o, ok = inJSON(line, begin); ok {
			return o, true
		}
		if data := joined(text, i); data != nil {
			if o, ok = inJSON(data, 0); ok {
				return o, true
			}
		}
		end = begin
	}
}

// lastEvents is how many bytes at the end of a stream are searched for an error, extended back to
// the start of a line.
const lastEvents = 1536

// hasFailed reports whether one of the last events in text, the end of a stream, is an error.
func hasFailed(text []byte) bool {
	from := max(0, len(text)-lastEvents)
	from = bytes.LastIndexByte(text[:from], '\n') + 1
	for data := range All(text[from:]) {
		if isError(data) {
			return true
		}
	}
	return false
}

// isError reports whether the data of an event is or contains an error.
func isError(data []byte) bool {
	if !bytes.Contains(data, []byte(`"error"`)) {
		return false
	}
	failed := false
	c := cursor{text: data}
	c.object(func(name []byte) {
		value := data[c.i:]
		switch string(name) {
		case "error":
			failed = failed || c.peek() != 'n'
		case "type":
			failed = failed || bytes.HasPrefix(value, []byte(`"error"`)) || bytes.HasPrefix(value, []byte(`"response.failed"`))
		}
		c.skip()
	})
	return failed
}

// inJSON returns the usage object of a complete JSON object that ends with text; its key must not
// start before text[from]. It must be a member of the object itself, of a member of it ("response"
// on the responses route, "message", "x_groq"), or of an element of "choices". Anything deeper may
// be written by the model, such as tool call arguments.
func inJSON(text []byte, from int) (found usageObject, ok bool) {
	deeper := false
	for end := len(text); ; {
		i := lastKey(text, from, end)
		if i < 0 {
			if !ok && deeper {
				return inChoices(text[from:])
			}
			return found, ok
		}
		end = i
		var o usageObject
		after := o.at(text, i+len(key))
		if after < 0 {
			continue
		}
		switch depth(text[after:]) {
		case 1:
			return o, true
		case 2:
			if !ok {
				found, ok = o, true
				found.nested = true
			}
		default:
			deeper = true
		}
	}
}

// inChoices returns the usage object of the last element of "choices" that has one. text is a JSON
// object, maybe after "data:".
func inChoices(text []byte) (o usageObject, ok bool) {
	c := cursor{text: text, i: max(0, bytes.IndexByte(text, '{'))}
	c.object(func(name []byte) {
		if string(name) != "choices" || c.peek() != '[' {
			c.skip()
			return
		}
		c.list(func() {
			if c.peek() != '{' {
				c.skip()
				return
			}
			c.object(func(name []byte) {
				if string(name) != key[1:len(key)-1] || c.peek() != '{' {
					c.skip()
					return
				}
				o, ok = usageObject{}, true
				o.read(&c, top)
			})
		})
	})
	return o, ok && !c.bad && c.peek() == 0
}

// inBeginning returns the usage object of a JSON object that starts with text. It must be a member
// of the object itself.
func inBeginning(text []byte) (o usageObject, ok bool) {
	c := cursor{text: text}
	c.object(func(name []byte) {
		if string(name) == key[1:len(key)-1] && c.peek() == '{' {
			o = usageObject{}
			o.read(&c, top)
			ok = !c.bad
			return
		}
		c.skip()
	})
	return o, ok
}

// key is the string to search for. In JSON these bytes are always a whole string, since inside a
// string the quotes would be escaped.
const key = `"usage"`

// leaps is the shift table of Horspool's algorithm, run from the end: for each byte at which the
// key does not start, the distance back to the next possible start.
var leaps = func() (t [256]uint8) {
	for i := range t {
		t[i] = uint8(len(key))
	}
	for i := len(key) - 1; i > 0; i-- {
		t[key[i]] = uint8(i)
	}
	return t
}()

// joined returns the data of the event around text[i] if it spans several lines, otherwise nil.
func joined(text []byte, i int) []byte {
	from, to := 0, len(text)
	for _, empty := range [...]string{"\n\n", "\n\r\n"} {
		if n := bytes.LastIndex(text[:i], []byte(empty)); n >= 0 {
			from = max(from, n+len(empty))
		}
		if n := bytes.Index(text[i:], []byte(empty)); n >= 0 {
			to = min(to, i+n)
		}
	}
	event := text[from:to]
	if bytes.Count(event, []byte("data:")) < 2 {
		return nil
	}
	data, _ := Data(event)
	return data
}

// lastKey returns the offset of the last key in text[from:end], or -1.
func lastKey(text []byte, from, end int) int {
	for i := end - len(key); i >= max(from, 1); i -= int(leaps[text[i]]) {
		if text[i] == '"' && string(text[i:i+len(key)]) == key && (isSpace(text[i-1]) || text[i-1] == ',' || text[i-1] == '{') {
			return i
		}
	}
	return -1
}

// at reads the object after a key that ends at text[i] and returns the offset of its end, or -1 if
// there is no complete object of at most maxObject bytes.
func (o *usageObject) at(text []byte, i int) int {
	c := cursor{text: text[:min(len(text), i+maxObject)], i: i}
	if !c.take(':') || c.peek() != '{' {
		return -1
	}
	o.read(&c, top)
	if c.bad {
		return -1
	}
	return c.i
}

// closing returns the length of the object or array at the start of text, or -1 if it is
// incomplete.
func closing(text []byte) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = endOfString(text, i); i < 0 {
				return -1
			}
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// depth returns how many objects that opened before rest are closed in it, where rest is the end of
// a JSON object. It returns -1 if an array is closed too, or something is left open.
func depth(rest []byte) int {
	open, ended := 0, 0
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			if i = endOfString(rest, i); i < 0 {
				return -1
			}
		case '{', '[':
			open++
		case ']', '}':
			switch {
			case open > 0:
				open--
			case rest[i] == ']':
				return -1
			default:
				ended++
			}
		}
	}
	if open > 0 {
		return -1
	}
	return ended
}

// endOfString returns the offset of the closing quote of the string that starts at text[i], or -1
// if there is none.
func endOfString(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[min(i, len(text)):], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' { // stops at the opening quote at the latest
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }
