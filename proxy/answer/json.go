package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sidenote/rewrite/chat"
)

// A member is a member of a JSON object.
type member struct {
	name  string
	value []byte // JSON
}

// An object is a JSON object with unparsed values. It is written without white space, its members
// in order.
type object []member

// objectOf parses an object; ok is false if raw is not one.
func objectOf(raw []byte) (o object, ok bool) {
	r := chat.NewReader(raw)
	if r.Kind() != chat.KindObject {
		return nil, false
	}
	o = make(object, 0, 8) // most events have fewer members
	r.Object(func(name string) { o = append(o, member{name, r.Value()}) })
	return o, r.End() == nil
}

// elementsOf parses an array; it returns nil if raw is not one.
func elementsOf(raw []byte) (list [][]byte) {
	r := chat.NewReader(raw)
	r.Array(func(int) { list = append(list, r.Value()) })
	if r.End() != nil {
		return nil
	}
	return list
}

// get returns the value of a member, or nil if it is missing or null.
func (o object) get(name string) []byte {
	for i := range o {
		if o[i].name == name && string(o[i].value) != "null" {
			return o[i].value
		}
	}
	return nil
}

// text returns the value of a string member, or the JSON of any other value.
func (o object) text(name string) string { return textOf(o.get(name)) }

func textOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw)
	}
	return chat.Unquote(raw)
}

// set replaces the value of a member, or appends a new member.
func (o *object) set(name string, value []byte) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// drop removes a member.
func (o *object) drop(name string) {
	kept := (*o)[:0:0]
	for _, m := range *o {
		if m.name != name {
			kept = append(kept, m)
		}
	}
	*o = kept
}

// json encodes the object.
func (o object) json() []byte {
	size := 2
	for _, m := range o {
		size += len(m.name) + len(m.value) + 4
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(m.name)...), ':'), m.value...)
	}
	return append(b, '}')
}

// list encodes an array.
func list[T ~[]byte](elements []T) []byte {
	b := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	return append(b, ']')
}

// quote encodes a string, without escaping < and &.
func quote(s string) []byte {
	if plain(s) {
		return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ToValidUTF8(s, "\uFFFD")); err != nil {
		panic("BUG: encode a string: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			return false
		}
	}
	return true
}

// sum adds two usage objects member by member. A member that is neither a number nor an object is
// taken from the later one.
func sum(earlier, later []byte) []byte {
	return joinUsage(earlier, later, 4, func(a, b int64) int64 { return a + b })
}

// grown is sum for two usage objects of one stream, in which numbers only grow.
func grown(earlier, later []byte) []byte {
	return joinUsage(earlier, later, 4, func(a, b int64) int64 { return max(a, b) })
}

// joinUsage joins the numbers of objects with that many levels; deeper ones are taken from the
// later one.
func joinUsage(earlier, later []byte, levels int, join func(a, b int64) int64) []byte {
	a, ok := objectOf(earlier)
	b, okToo := objectOf(later)
	switch {
	case !ok || levels == 0:
		return later
	case !okToo:
		return earlier
	}
	at := make(map[string]int, len(a))
	for i, m := range slices.Backward(a) {
		at[m.name] = i
	}
	for _, m := range b {
		i, ok := at[m.name]
		switch {
		case !ok:
			at[m.name] = len(a)
			a = append(a, m)
		case m.value[0] == 'n':
		case m.value[0] == '{':
			a[i].value = joinUsage(a[i].value, m.value, levels-1, join)
		default:
			n, err := strconv.ParseInt(string(a[i].value), 10, 64)
			if k, failed := strconv.ParseInt(string(m.value), 10, 64); err == nil && failed == nil {
				m.value = strconv.AppendInt(nil, join(n, k), 10)
			}
			a[i].value = m.value
		}
	}
	return a.json()
}

// A usageObject holds the numbers of a usage object.
type usageObject struct {
	n      [fields]int64
	there  [fields]bool
	seen   [len(numbers)]bool // names that were present
	nested bool               // nested in another member of the answer or event
	bad    UsageFinding       // the first problem with a number; "" if none
	detail string             // the numbers that cannot be used; "" if there are none
}

// usage checks the numbers. If totalOnly is set, as for embeddings, the total alone gives the
// input.
func (o *usageObject) usage(totalOnly bool) (Usage, UsageFinding) {
	switch {
	case o.bad != "":
		return Usage{}, o.bad
	case totalOnly && !o.there[input] && o.there[total]:
		o.n[input], o.there[input] = o.n[total], true
	}
	o.there[output] = o.there[output] || totalOnly
	if !o.there[input] {
		return Usage{}, UsageAbsent
	}
	o.splitWritten()
	excludes := o.excludesCache()
	if excludes {
		o.n[input] += o.n[cached] + o.n[written]
	}
	o.addHidden(excludes)
	u := Usage{
		Input: o.n[input], CachedInput: o.n[cached], CacheWrite: o.n[written], CacheWrite1h: o.n[written1h],
		Output: o.n[output], Reasoning: o.n[reasoning], Known: o.there[output],
	}
	switch {
	case u.CachedInput+u.CacheWrite > u.Input:
		o.detail = fmt.Sprintf("input %d, of it cached %d and written %d", u.Input, u.CachedInput, u.CacheWrite)
		return Usage{}, UsageInconsistent
	case u.Input > MaxUsageTokens:
		o.detail = fmt.Sprintf("input %d", u.Input)
		return Usage{}, UsageTooLarge
	case !u.Known:
		u.Output, u.Reasoning = 0, 0
		return u, UsagePartial
	case u.Reasoning > u.Output:
		o.detail = fmt.Sprintf("output %d, of it reasoning %d", u.Output, u.Reasoning)
		return Usage{}, UsageInconsistent
	}
	return u, UsageFound
}

// splitWritten sets written to the sum of its parts, and written1h to all of it that is not for
// five minutes. Anthropic streams report the parts at the start and the sum again at the end.
func (o *usageObject) splitWritten() {
	if !o.there[written5m] && !o.there[written1h] {
		return
	}
	o.n[written] = max(o.n[written], o.n[written5m]+o.n[written1h])
	if o.there[written5m] {
		o.n[written1h] = o.n[written] - o.n[written5m]
	}
}

// excludesCache reports whether the input does not include tokens read from or written to the
// cache. That is so for Anthropic, and maybe for gateways that pass its numbers on.
func (o *usageObject) excludesCache() bool {
	var prompt, anthropic bool
	for i := range numbers {
		switch n := &numbers[i]; {
		case !o.seen[i] || n.in != top:
		case n.name == "prompt_tokens":
			prompt = true
		case n.name == "cache_read_input_tokens" || n.name == "cache_creation_input_tokens":
			anthropic = true
		}
	}
	beside := o.n[cached] + o.n[written]
	switch rest := o.n[total] - o.n[input] - o.n[output]; {
	case !anthropic || beside == 0:
		return false
	case beside > o.n[input] || o.there[total] && rest == beside:
		return true
	case o.there[total] && rest == 0:
		return false
	}
	return !prompt
}

// addHidden adds reasoning to the output for upstreams that include it only in the total: xAI, and
// Google, which does not report it separately. If the input excluded the cache, or a rest is as large
// as what was cached, a gateway may have added that to the total.
func (o *usageObject) addHidden(excludedCache bool) {
	hidden := o.n[total] - o.n[input] - o.n[output]
	if hidden <= 0 || !o.there[output] {
		return
	}
	google := !o.there[reasoning] && !o.there[written] && !excludedCache && hidden != o.n[cached]
	if o.n[reasoning] == hidden || google {
		o.n[output] += hidden
		o.n[reasoning] = hidden
	}
}

// add merges the usage of a later event: the numbers of a stream only grow.
func (o *usageObject) add(later *usageObject) {
	for f := range fields {
		o.n[f], o.there[f] = max(o.n[f], later.n[f]), o.there[f] || later.there[f]
	}
	for i := range o.seen {
		o.seen[i] = o.seen[i] || later.seen[i]
	}
	if o.nested = later.nested; o.bad == "" {
		o.bad, o.detail = later.bad, later.detail
	}
}

// read reads a usage object or a part of it. Unknown members are skipped.
func (o *usageObject) read(c *cursor, in usagePart) {
	c.object(func(name []byte) {
		if i := numberOf(name, in); i >= 0 {
			o.number(c, i)
		} else if sub := partOf(name, in); sub != top && c.peek() == '{' {
			o.read(c, sub)
		} else {
			c.skip()
		}
	})
}

// number reads the value of numbers[i]. If several names give different numbers, the lowest cached
// and the highest written number counts, because some gateways fill in zeros.
func (o *usageObject) number(c *cursor, i int) {
	if c.peek() == 'n' {
		c.skip() // null
		return
	}
	f, start := numbers[i].is, c.i
	n, bad := c.number()
	if bad == "" && o.there[f] && o.n[f] != n {
		switch {
		case o.seen[i]:
			bad = UsageDuplicate
		case f == cached:
			n = min(n, o.n[f])
		case f == written:
			n = max(n, o.n[f])
		default:
			bad = UsageDuplicate
		}
	}
	if bad != "" && o.bad == "" {
		o.bad, o.detail = bad, badNumber(numbers[i].name, c.text[start:c.i])
	}
	o.n[f], o.there[f], o.seen[i] = n, true, true
}

// badNumber names a member and the begin of its value, without control characters.
func badNumber(name string, value []byte) string {
	const most = 24 // bytes; numbers have fewer
	return fmt.Sprintf("%s %.*q", name, most, bytes.TrimSpace(value))
}

// A cursor parses JSON. After an error it is at the end of the text.
type cursor struct {
	text []byte
	i    int
	key  int // offset of the current member's key, with its quote
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

// object calls member for each member; member must read its value.
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

// list calls element for each element; element must read it.
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

// str reads a string and returns the raw bytes between its quotes. So a key written with escapes is
// not recognized; no server writes one.
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

// skip reads a value of any type without validating it.
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

// number reads a token count. Only digits are accepted: no known server writes 12.0 or 1e3, and
// other readers would treat them differently.
func (c *cursor) number() (n int64, bad UsageFinding) {
	switch b := c.peek(); {
	case b == '-':
		c.skip()
		return 0, UsageNegative
	case b < '0' || b > '9':
		c.skip()
		return 0, UsageNotNumber
	}
	start := c.i
	for c.i < len(c.text) && c.text[c.i]-'0' <= 9 {
		if n = n*10 + int64(c.text[c.i]-'0'); n > MaxUsageTokens {
			n = MaxUsageTokens + 1
		}
		c.i++
	}
	digits := c.text[start:c.i]
	switch b := c.peek(); {
	case len(digits) > 1 && digits[0] == '0':
		c.fail()
		return 0, UsageMalformed
	case b != ',' && b != '}':
		c.skip()
		return 0, UsageNotNumber
	case n > MaxUsageTokens:
		return 0, UsageTooLarge
	}
	return n, ""
}

// A usageField is a number of a usage object.
type usageField int

// The fields.
const (
	input usageField = iota
	output
	total
	cached
	written   // written into the cache, including the next two
	written5m // kept for five minutes
	written1h // kept for an hour
	reasoning
	fields
)

// A usagePart is a usage object or an object in it.
type usagePart int

// The parts.
const (
	top      usagePart = iota
	details            // details of the prompt or of the answer
	creation           // details of what was written into the cache
)

// numbers lists where vendors put the numbers of a usage object. Names with the same field mean the
// same number.
//
// The usage object is a member of the answer or of a stream's event, or of "response" (OpenAI's
// responses), "x_groq", "message" (Anthropic's event message_start; message_delta has the rest), or
// an element of "choices" (Kimi's streams). See inJSON.
var numbers = [...]struct {
	in   usagePart
	name string
	is   usageField
	by   string // vendors and gateways that use the name
}{
	{top, "prompt_tokens", input, "OpenAI and most others"},
	{top, "input_tokens", input, "OpenAI's responses; Anthropic, without those of its cache"},
	{top, "completion_tokens", output, "OpenAI and most others"},
	{top, "output_tokens", output, "OpenAI's responses, Anthropic"},
	{top, "total_tokens", total, "all but Anthropic; with reasoning that output does not have: xAI, Google"},

	{details, "cached_tokens", cached, "OpenAI and most others: Google, Mistral, Qwen, xAI, OpenRouter, vLLM"},
	{top, "cached_tokens", cached, "Kimi"},
	{top, "prompt_cache_hit_tokens", cached, "DeepSeek"},
	{top, "cache_read_input_tokens", cached, "Anthropic, LiteLLM"},

	{details, "cache_write_tokens", written, "OpenAI, OpenRouter"},
	{details, "cache_creation_tokens", written, "LiteLLM"},
	{details, "cache_creation_input_tokens", written, "Qwen"},
	{top, "cache_creation_input_tokens", written, "Anthropic, LiteLLM"},
	{creation, "ephemeral_5m_input_tokens", written5m, "Anthropic, LiteLLM, Qwen"},
	{creation, "ephemeral_1h_input_tokens", written1h, "Anthropic, LiteLLM"},

	{details, "reasoning_tokens", reasoning, "OpenAI and most others"},
	{details, "thinking_tokens", reasoning, "Anthropic"},
}

// parts lists the names of the objects in a usage object.
var parts = [...]struct {
	in   usagePart
	name string
	is   usagePart
}{
	{top, "prompt_tokens_details", details},
	{top, "completion_tokens_details", details},
	{top, "input_tokens_details", details},
	{top, "output_tokens_details", details},
	{top, "cache_creation", creation},                   // Anthropic
	{details, "cache_creation", creation},               // Qwen
	{details, "cache_creation_token_details", creation}, // LiteLLM
}

// numberOf returns the index of a name in numbers, or -1.
func numberOf(name []byte, in usagePart) int {
	for i := range numbers {
		if n := &numbers[i]; len(n.name) == len(name) && n.in == in && n.name == string(name) {
			return i
		}
	}
	return -1
}

// partOf returns the part of a usage object with that name, or top if there is none.
func partOf(name []byte, in usagePart) usagePart {
	for i := range parts {
		if p := &parts[i]; len(p.name) == len(name) && p.in == in && p.name == string(name) {
			return p.is
		}
	}
	return top
}
