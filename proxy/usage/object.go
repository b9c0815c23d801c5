package usage

// A field is a number of a usage object.
type field int

// The fields. OpenAI's routes have two sets of names for them.
const (
	input field = iota
	output
	total
	cached
	reasoning
	fields
)

// The names of the fields, and of the objects in which cached and reasoning stand.
func fieldOf(name []byte, inDetails bool) (f field, ok bool) {
	switch string(name) {
	case "prompt_tokens", "input_tokens":
		return input, !inDetails
	case "completion_tokens", "output_tokens":
		return output, !inDetails
	case "total_tokens":
		return total, !inDetails
	case "cached_tokens":
		return cached, inDetails
	case "reasoning_tokens":
		return reasoning, inDetails
	}
	return 0, false
}

func isDetails(name []byte) bool {
	switch string(name) {
	case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
		return true
	}
	return false
}

// An object is the numbers of a usage object.
type object struct {
	n     [fields]int64
	there [fields]bool
	bad   Finding // the first number that cannot be used; "" if none
}

// usage checks the numbers. totalOnly says that the total alone tells the input, as on the
// route embeddings.
func (o *object) usage(totalOnly bool) (Usage, Finding) {
	switch {
	case o.bad != "":
		return Usage{}, o.bad
	case totalOnly && !o.there[input] && o.there[total]:
		o.n[input], o.there[input] = o.n[total], true
	}
	o.there[output] = o.there[output] || totalOnly
	if !o.there[input] {
		return Usage{}, Absent
	}
	o.addHidden()
	u := Usage{Input: o.n[input], CachedInput: o.n[cached], Output: o.n[output], Reasoning: o.n[reasoning], Known: o.there[output]}
	switch {
	case u.CachedInput > u.Input:
		return Usage{}, Inconsistent
	case !u.Known:
		return Usage{Input: u.Input, CachedInput: u.CachedInput}, Partial
	case u.Reasoning > u.Output:
		return Usage{}, Inconsistent
	}
	return u, Found
}

// addHidden adds reasoning to the output where an upstream counts it in the total alone,
// as xAI does, and Google, which does not name it.
func (o *object) addHidden() {
	hidden := o.n[total] - o.n[input] - o.n[output]
	if hidden <= 0 || !o.there[output] {
		return
	}
	if o.n[reasoning] == hidden || !o.there[reasoning] && !o.there[cached] {
		o.n[output] += hidden
		o.n[reasoning] = hidden
	}
}

// read reads an object: usage itself, or its details. Of others only the syntax is read.
func (o *object) read(c *cursor, inDetails bool) {
	c.object(func(name []byte) {
		f, ok := fieldOf(name, inDetails)
		switch {
		case ok:
			o.number(c, f)
		case !inDetails && isDetails(name) && c.peek() == '{':
			o.read(c, true)
		default:
			c.skip()
		}
	})
}

// number reads the value of f.
func (o *object) number(c *cursor, f field) {
	if c.peek() == 'n' {
		c.skip() // null
		return
	}
	n, bad := c.number()
	if bad == "" && o.there[f] && o.n[f] != n {
		bad = Duplicate
	}
	if bad != "" && o.bad == "" {
		o.bad = bad
	}
	o.n[f], o.there[f] = n, true
}

// A cursor reads JSON. After an error it is at the end of the text.
type cursor struct {
	text []byte
	i    int
	key  int // where the key of the current member begins, quote included
	bad  bool
}

func (c *cursor) fail() { c.bad, c.i = true, len(c.text) }

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.text) {
		switch b := c.text[c.i]; b {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) take(b byte) bool {
	if c.peek() != b {
		c.fail()
		return false
	}
	c.i++
	return true
}

// object calls member for each member, which reads its value.
func (c *cursor) object(member func(name []byte)) {
	if !c.take('{') {
		return
	}
	if c.peek() == '}' {
		c.i++
		return
	}
	for {
		c.peek()
		key := c.i
		name := c.str()
		if !c.take(':') {
			return
		}
		c.peek()
		c.key = key
		member(name)
		if c.peek() != ',' {
			break
		}
		c.i++
	}
	c.take('}')
}

// list calls element for each element, which reads it.
func (c *cursor) list(element func()) {
	if !c.take('[') {
		return
	}
	for more := c.peek() != ']'; more && !c.bad; {
		c.peek()
		element()
		if more = c.peek() == ','; more {
			c.i++
		}
	}
	c.take(']')
}

// str reads a string and returns what stands between its quotes, as it stands there. So a
// key that is written with escapes is unknown; no server writes one.
func (c *cursor) str() []byte {
	if c.i >= len(c.text) || c.text[c.i] != '"' {
		c.fail()
		return nil
	}
	end := endOfString(c.text, c.i)
	if end < 0 {
		c.fail()
		return nil
	}
	text := c.text[c.i+1 : end]
	c.i = end + 1
	return text
}

// skip reads a value of any type, without a check of what stands in it.
func (c *cursor) skip() {
	switch c.peek() {
	case '"':
		c.str()
	case '{', '[':
		end := closing(c.text[c.i:])
		if end < 0 {
			c.fail()
			return
		}
		c.i += end
	default:
		start := c.i
		for c.i < len(c.text) && !isSpace(c.text[c.i]) && c.text[c.i] != ',' && c.text[c.i] != '}' && c.text[c.i] != ']' {
			c.i++
		}
		if c.i == start {
			c.fail()
		}
	}
}

// number reads a value that should be a count of tokens. Counts are written with digits
// alone: no server is known that writes 12.0 or 1e3, and others would read them otherwise.
func (c *cursor) number() (n int64, bad Finding) {
	switch b := c.peek(); {
	case b == '-':
		c.skip()
		return 0, Negative
	case b < '0' || b > '9':
		c.skip()
		return 0, NotNumber
	}
	start := c.i
	for c.i < len(c.text) && c.text[c.i]-'0' <= 9 {
		if n = n*10 + int64(c.text[c.i]-'0'); n > MaxTokens {
			n = MaxTokens + 1
		}
		c.i++
	}
	digits := c.text[start:c.i]
	switch b := c.peek(); {
	case len(digits) > 1 && digits[0] == '0':
		c.fail()
		return 0, Malformed
	case b != ',' && b != '}':
		c.skip()
		return 0, NotNumber
	case n > MaxTokens:
		return 0, TooLarge
	}
	return n, ""
}
