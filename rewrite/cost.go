package rewrite

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A Cost is the size of a request's prompt for a model, in tokens.
type Cost struct {
	Messages int `json:"messages"`        // texts, names, tool calls, the tokens that frame them, and the start of the answer
	Tools    int `json:"tools"`           // their names, descriptions and schemas
	Format   int `json:"response_format"` // its schema
	Images   int `json:"images"`          // and other attachments

	// Exact says that the request holds only text, counted with the model's own
	// encoding. Everything else is counted by formulas.
	Exact bool `json:"exact"`
	// Stopped says that counting stopped when the count exceeded the model's window,
	// because counting hostile texts to their end takes long.
	Stopped bool `json:"stopped,omitempty"`
}

func (c Cost) sum() int { return c.Messages + c.Tools + c.Format + c.Images }

// Assumptions, in tokens unless it says otherwise, where nothing is documented.
const (
	callOverhead  = 4     // a tool call, besides its name and arguments
	fileTokens    = 2_000 // a file or video; a request often holds only its id
	fileBytes     = 16    // bytes of such data in the request for one token more
	audioTokens   = 64    // an audio recording
	audioBytes    = 256   // bytes of its data for one token more: 10 tokens a second (OpenAI) of MP3 at 16 kbit/s
	spokenTokens  = 640   // an earlier spoken answer given by its id; it may be a minute long
	toolsPreamble = 350   // the text that servers put before a list of tools (Anthropic documents 346)
)

// costs remembers the counts of messages and lists of tools by hashes of their bytes,
// so that in a growing conversation only the new message is counted.
type costs struct {
	once  sync.Once
	cache *tokens.Cache
}

// costsBits makes room for 64k messages in 1 MiB.
const costsBits = 14

// costSeed seeds the hash of what a count depends on besides the text. It never changes
// in a process.
var costSeed = maphash.MakeSeed()

// A weigher counts requests for one model.
type weigher struct {
	counter  retrieval.Counter
	encoding string
	images   tokens.ImageRule
	cache    *tokens.Cache
	salt     uint64 // hash of encoding and images
	limit    int    // counting stops beyond so many tokens; 0 is no limit
}

func (c *costs) weigher(m *Model) *weigher {
	c.once.Do(func() { c.cache = tokens.NewCache(costsBits) })
	return &weigher{counter: m.Counter, encoding: m.Encoding, images: m.Images, cache: c.cache, salt: maphash.Comparable(costSeed, struct {
		encoding string
		images   tokens.ImageRule
	}{m.Encoding, m.Images})}
}

// cost counts the whole request. The text parts of a message are counted as one text.
//
// Messages are counted as the OpenAI cookbook says ("How to count tokens with
// tiktoken"), tools likewise (see tools), names and arguments of tool calls as text,
// and images by w.images.
func (w *weigher) cost(r *Request) Cost {
	sound := !r.ambiguous && (r.seen&markWide == 0 || utf8.Valid(r.Body))
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
		n, stopped := w.cachedCount(s.of(r.Body), toolsOf, w.tools)
		c.Tools += n
		c.Exact, c.Stopped = false, c.Stopped || stopped
	}
	if r.format != (span{}) {
		n, stopped := w.cachedCount(r.format.of(r.Body), formatOf, w.schema)
		c.Format, c.Exact, c.Stopped = n, false, c.Stopped || stopped
	}
	return c
}

// The kinds of counts that are remembered for a text; they are mixed into its key.
const (
	messageText uint64 = iota
	messageImages
	toolsOf
	formatOf
)

// cachedCount returns the number of tokens that count adds for raw, from the cache if it
// is there. A count that stopped early is not kept.
func (w *weigher) cachedCount(raw []byte, what uint64, count func(m *messageWeight)) (n int, stopped bool) {
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
	if ok && !exact { // an exact count has no images
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

// A messageWeight is the running count of one message, or of another part of the
// request, whose JSON was checked before.
type messageWeight struct {
	*weigher
	scanner
	text, images int
	exact        bool
	stopped      bool // counting stopped at the limit
}

// A limitedCounter is a Counter that can stop at a limit.
type limitedCounter interface {
	CountUpTo(text string, limit int) (n, end int)
}

// count adds the tokens of a text. With a limit it stops as soon as the limit is
// exceeded.
func (m *messageWeight) count(text string) {
	if m.limit > 0 && m.text > m.limit {
		m.stopped = true
		return
	}
	if c, ok := m.counter.(limitedCounter); ok && m.limit > 0 && len(text) > m.limit {
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

// string reads the next value and returns its text, "" if it is no string.
func (m *messageWeight) string() string {
	k, v := m.kind(), m.value()
	if k != kindString {
		return ""
	}
	return unquote(v.of(m.b))
}

// list reads the next value and calls element for each element; a value that is no
// array is skipped.
func (m *messageWeight) list(element func(n int)) {
	if m.kind() != kindArray {
		m.value()
		return
	}
	m.array(element)
}

// members reads the next value and calls member for each member; a value that is no
// object is skipped.
func (m *messageWeight) members(member func(name string)) {
	if m.kind() != kindObject {
		m.value()
		return
	}
	m.object(func(key span, _ bool) { member(unquote(key.of(m.b))) })
}

// The members that are counted. A name that differs only in letter case is taken for
// one of them, and a member that stands twice is counted twice, because some upstream
// may read it.
var (
	memberNames = []string{"content", "name", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call", "audio"}
	callNames   = []string{"function", "custom", "name", "arguments", "input"}
	partNames   = []string{"type", "text", "refusal", "thinking", "image_url"}
)

// known returns the one of names that name equals but for letter case, "" if none.
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
		m.functionCall()
	case "audio":
		m.audio()
	default:
		m.value()
	}
}

// audio counts the audio of an earlier answer: most requests hold its id, some all of
// its data.
func (m *messageWeight) audio() {
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

// call counts an element of tool_calls: a function with arguments, or a custom tool
// with its input.
func (m *messageWeight) call() {
	m.members(func(name string) {
		switch m.known(name, callNames) {
		case "function", "custom":
			m.functionCall()
		default:
			m.value()
		}
	})
}

func (m *messageWeight) functionCall() {
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

// part reads a part of a message's content. It returns the text of a text part and
// counts any other part. Text in parts of other types, which some servers accept, is
// counted on its own, because the block is appended to the text parts that Parse knows,
// not to these.
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

// image reads an image's URL, as the inside of a JSON string, and its detail.
func (m *messageWeight) image() (url []byte, detail string) {
	inside := func() []byte {
		k, v := m.kind(), m.value()
		if k != kindString {
			return nil
		}
		return m.b[v.start+1 : v.end-1]
	}
	if m.kind() == kindString { // some servers accept a bare string
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
