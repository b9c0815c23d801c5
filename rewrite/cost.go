package rewrite

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A Cost is what a request costs a model before it answers, in tokens.
type Cost struct {
	Messages int `json:"messages"`        // texts, names and tool calls, what frames them, and the start of the answer
	Tools    int `json:"tools"`           // their names, descriptions and schemas
	Format   int `json:"response_format"` // its schema
	Images   int `json:"images"`          // and other attachments

	// Exact says that all of it is text, counted by the model's own encoding. For
	// the rest there are only formulas.
	Exact bool `json:"exact"`
	// Stopped says that counting ended once there was more than the model's window
	// holds: hostile texts take their time.
	Stopped bool `json:"stopped,omitempty"`
}

func (c Cost) sum() int { return c.Messages + c.Tools + c.Format + c.Images }

// What is assumed where nothing is documented, in tokens.
const (
	callOverhead  = 4     // a tool call, beside the name and the arguments
	fileTokens    = 2_000 // a file or video, of which a request often holds but an id
	fileBytes     = 16    // of such data, as it stands in the request, for one token more
	audioTokens   = 64    // a recording
	audioBytes    = 256   // of its data for one token more: 10 tokens a second (OpenAI) of MP3 at 16 kbit/s
	spokenTokens  = 640   // an earlier answer by its id, which may be a minute long
	toolsPreamble = 350   // what servers say before a list of tools (Anthropic documents 346)
)

// costs remembers what messages and lists of tools cost, by hashes of their bytes:
// of a conversation that grows only the new message is counted.
type costs struct {
	once  sync.Once
	cache *tokens.Cache
}

// costsBits makes room for 64k messages in 1 MiB.
const costsBits = 14

// costSeed hashes what a count depends on beside the text; it is made once and
// never changes.
var costSeed = maphash.MakeSeed()

// A weigher counts requests for one model.
type weigher struct {
	counter  retrieval.Counter
	encoding string
	images   tokens.ImageRule
	cache    *tokens.Cache
	salt     uint64 // of encoding and images
	limit    int    // of tokens, beyond which it does not matter how many; 0 is none
}

func (c *costs) weigher(m *Model) *weigher {
	c.once.Do(func() { c.cache = tokens.NewCache(costsBits) })
	return &weigher{counter: m.Counter, encoding: m.Encoding, images: m.Images, cache: c.cache, salt: maphash.Comparable(costSeed, struct {
		encoding string
		images   tokens.ImageRule
	}{m.Encoding, m.Images})}
}

// cost counts the whole request. The parts of a message's text are taken as one
// text.
//
// A message costs what the OpenAI cookbook says ("How to count tokens with
// tiktoken"), tools likewise (see tools); names and arguments of tool calls are
// counted as text, images by w.images.
func (w *weigher) cost(r *Request) Cost {
	sound := !r.unclear && (r.seen&markWide == 0 || utf8.Valid(r.Body))
	c := Cost{Messages: tokens.ReplyOverhead, Exact: r.attachments == 0 && sound}
	for _, s := range r.spans {
		text, images, exact := w.message(s.of(r.Body))
		c.Messages += text
		c.Images += images
		c.Exact = c.Exact && exact
		if w.limit > 0 && c.Messages > w.limit {
			c.Exact, c.Stopped = false, true
			return c
		}
	}
	for _, s := range r.tools {
		n, stopped := w.remembered(s.of(r.Body), toolsOf, w.tools)
		c.Tools += n
		c.Exact, c.Stopped = false, c.Stopped || stopped
	}
	if r.format != (span{}) {
		n, stopped := w.remembered(r.format.of(r.Body), formatOf, w.schema)
		c.Format, c.Exact, c.Stopped = n, false, c.Stopped || stopped
	}
	return c
}

// The numbers that are remembered of a text.
const (
	messageText uint64 = iota
	messageImages
	toolsOf
	formatOf
)

// remembered returns what count makes of raw.
func (w *weigher) remembered(raw []byte, what uint64, count func(m *messageWeight)) (n int, stopped bool) {
	k := w.cache.Key(raw).Of(w.salt + what)
	n, _, ok := w.cache.Get(k)
	if ok {
		return n, false
	}
	m := w.weight(raw)
	if count(m); !m.stopped {
		w.cache.Put(k, m.text, false)
	}
	return m.text, m.stopped
}

func (w *weigher) weight(raw []byte) *messageWeight {
	return &messageWeight{weigher: w, scanner: scanner{b: raw, loneSurrogate: -1}, exact: true}
}

// schema counts a response_format.
func (w *weigher) schema(m *messageWeight) { m.count(string(m.b)) }

// message counts one message.
func (w *weigher) message(raw []byte) (text, images int, exact bool) {
	k := w.cache.Key(raw)
	text, exact, ok := w.cache.Get(k.Of(w.salt + messageText))
	if ok && !exact { // in what is exact there are none
		images, _, ok = w.cache.Get(k.Of(w.salt + messageImages))
	}
	if !ok {
		m := w.weight(raw)
		m.text = tokens.MessageOverhead
		m.object(m.member)
		text, images, exact = m.text, m.images, m.exact
		if m.stopped {
			return text, images, false
		}
		w.cache.Put(k.Of(w.salt+messageText), text, exact)
		if !exact {
			w.cache.Put(k.Of(w.salt+messageImages), images, true)
		}
	}
	return text, images, exact
}

// A messageWeight is the counting of one message, or of what else a request holds,
// whose JSON was checked.
type messageWeight struct {
	*weigher
	scanner
	text, images int
	exact        bool
	stopped      bool // there is more text than was counted
}

// An upTo is a Counter that can stop.
type upTo interface {
	CountUpTo(text string, limit int) (n, end int)
}

// count adds a text, or as much of it as says that it is too long.
func (m *messageWeight) count(text string) {
	if m.limit > 0 && m.text > m.limit {
		m.stopped = true
		return
	}
	if c, ok := m.counter.(upTo); ok && m.limit > 0 && len(text) > m.limit {
		if n, _ := c.CountUpTo(text, m.limit); n > m.limit {
			m.text += n
			m.stopped = true
			return
		}
	}
	n, exact := m.counter.Count(text)
	m.text += n
	m.exact = m.exact && exact
}

// string reads a value that is a string; of another one it returns "".
func (m *messageWeight) string() string {
	k, v := m.kind(), m.value()
	if k != kindString {
		return ""
	}
	return unquote(v.of(m.b))
}

// list reads a value that should be a list.
func (m *messageWeight) list(element func(n int)) {
	if m.kind() != kindArray {
		m.value()
		return
	}
	m.array(element)
}

// members reads a value that should be an object.
func (m *messageWeight) members(member func(name string)) {
	if m.kind() != kindObject {
		m.value()
		return
	}
	m.object(func(key span, _ bool) { member(unquote(key.of(m.b))) })
}

// The names that are counted by. A name that differs from one of them in case alone is
// taken for it, and what stands twice is counted twice: some upstream may read it.
var (
	memberNames = []string{"content", "name", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call", "audio"}
	callNames   = []string{"function", "custom", "name", "arguments", "input"}
	partNames   = []string{"type", "text", "refusal", "thinking", "image_url"}
)

// known returns which of names a name is, "" for none.
func (m *messageWeight) known(name string, names []string) string {
	for _, n := range names {
		if strings.EqualFold(name, n) {
			m.exact = m.exact && name == n
			return n
		}
	}
	return ""
}

func (m *messageWeight) member(key span, _ bool) {
	switch m.known(unquote(key.of(m.b)), memberNames) {
	case "content":
		m.content()
	case "name":
		m.count(m.string())
		m.text += tokens.NameOverhead
	case "refusal", "reasoning_content", "reasoning":
		m.count(m.string())
	case "tool_calls":
		m.list(func(int) { m.call() })
	case "function_call":
		m.called()
	case "audio":
		m.spoken()
	default:
		m.value()
	}
}

// spoken counts the audio of an earlier answer: requests hold its id, and some all of it.
func (m *messageWeight) spoken() {
	if m.kind() != kindObject {
		m.value()
		return
	}
	data := 0
	m.members(func(name string) {
		if name == "transcript" {
			m.count(m.string())
			return
		}
		v := m.value()
		if name == "data" {
			data = v.end - v.start
		}
	})
	m.images += max(spokenTokens, audioTokens+data/audioBytes)
	m.exact = false
}

func (m *messageWeight) content() {
	if m.kind() == kindString {
		m.count(m.string())
		return
	}
	var texts strings.Builder
	m.list(func(int) { texts.WriteString(m.part()) })
	m.count(texts.String())
}

// call counts one of tool_calls: a function with arguments, or a custom tool with
// its input.
func (m *messageWeight) call() {
	m.members(func(name string) {
		switch m.known(name, callNames) {
		case "function", "custom":
			m.called()
		default:
			m.value()
		}
	})
}

func (m *messageWeight) called() {
	m.exact = false
	m.text += callOverhead
	m.members(func(name string) {
		switch m.known(name, callNames) {
		case "name", "arguments", "input":
			m.count(m.string())
		default:
			m.value()
		}
	})
}

// part reads a part of a content: a text, which it returns, or something else, which
// it counts. Text under other names, as some servers take it, is counted by itself:
// what is added stands behind the texts that Parse knows.
func (m *messageWeight) part() (text string) {
	kind, data, url, detail := "", 0, []byte(nil), ""
	m.members(func(name string) {
		switch m.known(name, partNames) {
		case "type":
			kind = m.string()
		case "text", "refusal", "thinking":
			text += m.string()
		case "image_url":
			url, detail = m.image()
		default:
			v := m.value()
			data += v.end - v.start
		}
	})
	switch kind {
	case "text":
		return text
	case "refusal":
		m.count(text)
		return ""
	case "", "input_text", "output_text", "thinking":
		m.count(text)
	case "image_url":
		width, height := imageSize(url)
		m.images += m.weigher.images.Tokens(width, height, detail)
	case "input_audio":
		m.images += audioTokens + data/audioBytes
	default:
		m.count(text)
		m.images += fileTokens + data/fileBytes
	}
	m.exact = false
	return ""
}

// image reads where an image is, as the inside of a JSON string, and in how much
// detail it is to be seen.
func (m *messageWeight) image() (url []byte, detail string) {
	inside := func() []byte {
		k, v := m.kind(), m.value()
		if k != kindString {
			return nil
		}
		return m.b[v.start+1 : v.end-1]
	}
	if m.kind() == kindString { // as some servers have it
		return inside(), ""
	}
	m.members(func(name string) {
		switch name {
		case "url":
			url = inside()
		case "detail":
			detail = m.string()
		default:
			m.value()
		}
	})
	return url, detail
}
