package model

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"image/jpeg"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// CostTokens is the size of a request's prompt in a model's tokens.
type CostTokens struct {
	Messages int `json:"messages"`        // texts, names, tool calls, the overhead of messages, and the start of the answer
	Tools    int `json:"tools"`           // names, descriptions and schemas of tools
	Format   int `json:"response_format"` // its schema
	Images   int `json:"images"`          // images and other attachments

	// Exact means that the request holds only text, counted with the model's own encoding.
	// Everything else is counted by formulas.
	Exact bool `json:"exact"`
	// Stopped means that counting stopped when the count exceeded the model's window, because
	// counting hostile texts to their end takes long.
	Stopped bool `json:"stopped,omitempty"`
}

// Sum returns the total.
func (t CostTokens) Sum() int { return t.Messages + t.Tools + t.Format + t.Images }

// Assumptions where nothing is documented, in tokens unless stated otherwise.
const (
	callOverhead  = 4     // a tool call, in addition to its name and arguments
	FileTokens    = 2_000 // a file or video; requests often hold only its id
	fileBytes     = 16    // bytes of such data in the request per additional token
	audioTokens   = 64    // an audio recording
	audioBytes    = 256   // bytes of its data per additional token: 10 tokens a second (OpenAI) of MP3 at 16 kbit/s
	spokenTokens  = 640   // an earlier spoken answer referenced by id; it may be a minute long
	toolsPreamble = 350   // text that servers put before a list of tools (Anthropic documents 346)
)

// A CostModel says how the tokens of a model's prompts are counted.
type CostModel struct {
	Encoding string
	Counter  retrieval.Counter
	Images   tokens.ImageRule
}

// seed seeds the hash of the settings that a count depends on. It is constant within a process.
var seed = maphash.MakeSeed()

// A weigher counts the tokens of one request for one model.
type weigher struct {
	CostModel
	cache *tokens.Cache
	salt  uint64 // hash of encoding, images and API
	api   chat.API
	limit int // counting stops above this many tokens; 0 is no limit
}

// Count counts the whole request, but stops above limit tokens unless limit is 0. The text parts
// of a message are counted as one text.
//
// Messages are counted as in the OpenAI cookbook ("How to count tokens with tiktoken"), tools
// likewise (see tools), names and arguments of tool calls as text, and images by the model's
// rule.
func (c *MessageCosts) Count(m CostModel, limit int) CostTokens {
	r := c.request
	salt := maphash.Comparable(seed, struct {
		encoding string
		images   tokens.ImageRule
		api      chat.API
	}{m.Encoding, m.Images, r.API})
	w := &weigher{m, c.cache, salt, r.API, limit}
	t := CostTokens{Messages: tokens.ReplyOverhead, Exact: r.Attachments == 0 && r.ValidOutsideMessages()}
	for i, s := range r.Messages {
		text, images, exact := w.message(c.key(i), s.Of(r.Body))
		t.Messages += text
		t.Images += images
		t.Exact = t.Exact && exact
		if limit > 0 && t.Messages > limit {
			t.Exact, t.Stopped = false, true
			return t
		}
	}
	for _, s := range r.Tools {
		n, stopped := w.cachedCount(s.Of(r.Body), toolsOf, (*messageWeight).tools)
		t.Tools += n
		t.Exact, t.Stopped = false, t.Stopped || stopped
	}
	if r.Format != (chat.Span{}) {
		n, stopped := w.cachedCount(r.Format.Of(r.Body), formatOf, (*messageWeight).format)
		t.Format, t.Exact, t.Stopped = n, false, t.Stopped || stopped
	}
	return t
}

// The kinds of counts cached for a text; they are mixed into its key.
const (
	messageText uint64 = iota
	messageImages
	toolsOf
	formatOf
	beyondText // text of a message whose count stopped at a limit
	beyondImages
)

// cachedCount returns the number of tokens that count adds for raw, cached if possible. A count
// that stopped early is not cached.
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
	return &messageWeight{weigher: w, Reader: chat.NewReader(raw), exact: true}
}

// format counts a response_format.
func (m *messageWeight) format() { m.count(string(m.Value())) }

// message counts one message with cache key k. The count is exact only if all of it is UTF-8.
func (w *weigher) message(k tokens.Key, raw []byte) (text, images int, exact bool) {
	text, exact, ok := w.cache.Get(k.Of(w.salt + messageText))
	if ok && !exact { // an exact count has no images
		images, _, ok = w.cache.Get(k.Of(w.salt + messageImages))
	}
	if !ok {
		beyond := [...]tokens.Key{k.Of(w.salt + beyondText).Of(uint64(w.limit)), k.Of(w.salt + beyondImages).Of(uint64(w.limit))}
		if text, _, ok = w.cache.Get(beyond[0]); ok {
			if images, _, ok = w.cache.Get(beyond[1]); ok {
				return text, images, false
			}
		}
		m := w.weight(raw)
		switch {
		case w.api == chat.Responses:
			m.item()
		case w.api == chat.Messages:
			m.turn()
		default:
			m.text = tokens.MessageOverhead
			m.Object(m.member)
		}
		text, images, exact = m.text, m.images, m.exact && utf8.Valid(raw)
		if m.stopped {
			w.cache.Put(beyond[0], text, false)
			w.cache.Put(beyond[1], images, false)
			return text, images, false
		}
		w.cache.Put(k.Of(w.salt+messageText), text, exact)
		if !exact {
			w.cache.Put(k.Of(w.salt+messageImages), images, true)
		}
	}
	return text, images, exact
}

// A messageWeight is the running count of one message, or of another part of the request. Its
// JSON is known to be valid.
type messageWeight struct {
	*weigher
	chat.Reader
	text, images int
	exact        bool
	stopped      bool // counting stopped at the limit
}

// count adds the tokens of a text. It stops as soon as the limit is exceeded.
func (m *messageWeight) count(text string) {
	if m.limit > 0 && m.text > m.limit {
		m.stopped = true
		return
	}
	if m.limit > 0 && len(text) > m.limit {
		if n, _ := tokens.CountUpTo(m.Counter, text, m.limit); n > m.limit {
			m.text += n
			m.stopped = true
			return
		}
	}
	n, exact := m.Counter.Count(text)
	m.text += n
	m.exact = m.exact && exact
}

// The members that are counted. A name that differs only in case is treated as one of them, and a
// duplicate member is counted twice, because some upstream may read it.
var (
	memberNames = []string{"content", "name", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call", "audio"}
	callNames   = []string{"function", "custom", "name", "arguments", "input"}
	partNames   = []string{"type", "text", "refusal", "thinking", "image_url", "detail"}
)

// known returns the element of names that equals name except for case, "" if none.
func (m *messageWeight) known(name string, names []string) string {
	for _, n := range names {
		if strings.EqualFold(name, n) {
			m.exact = m.exact && name == n
			return n
		}
	}
	return ""
}

func (m *messageWeight) member(name string) {
	switch m.known(name, memberNames) {
	case "content":
		m.content()
	case "name":
		m.count(m.Text())
		m.text += tokens.NameOverhead
	case "refusal", "reasoning_content", "reasoning":
		m.count(m.Text())
	case "tool_calls":
		m.Array(func(int) { m.call() })
	case "function_call":
		m.functionCall()
	case "audio":
		m.audio()
	default:
		m.Value()
	}
}

// audio counts the audio of an earlier answer: most requests hold its id, some all of its data.
func (m *messageWeight) audio() {
	if m.Kind() != chat.KindObject {
		m.Value()
		return
	}
	data := 0
	m.Object(func(name string) {
		if name == "transcript" {
			m.count(m.Text())
			return
		}
		v := m.Value()
		if name == "data" {
			data = len(v)
		}
	})
	m.images += max(spokenTokens, audioTokens+data/audioBytes)
	m.exact = false
}

func (m *messageWeight) content() {
	if m.Kind() == chat.KindString {
		m.count(m.Text())
		return
	}
	var texts strings.Builder
	m.Array(func(int) { texts.WriteString(m.part()) })
	m.count(texts.String())
}

// call counts an element of tool_calls: a function with arguments, or a custom tool with its
// input.
func (m *messageWeight) call() {
	m.Object(func(name string) {
		switch m.known(name, callNames) {
		case "function", "custom":
			m.functionCall()
		default:
			m.Value()
		}
	})
}

func (m *messageWeight) functionCall() {
	m.exact = false
	m.text += callOverhead
	m.Object(func(name string) {
		switch m.known(name, callNames) {
		case "name", "arguments", "input":
			m.count(m.Text())
		default:
			m.Value()
		}
	})
}

// part reads a part of a message's content. It returns the text of a text part and counts any
// other part. Text in parts of other types, which some servers accept, is counted separately,
// because the block is appended to the text parts that Parse knows, not to these.
func (m *messageWeight) part() (text string) {
	kind, data, url, detail, own := "", 0, []byte(nil), "", ""
	m.Object(func(name string) {
		switch m.known(name, partNames) {
		case "type":
			kind = m.Text()
		case "text", "refusal", "thinking":
			text += m.Text()
		case "image_url":
			url, detail = m.image()
		case "detail":
			own = m.Text()
		default:
			if v := m.Value(); !chat.IsCacheMark(name) {
				data += len(v)
			}
		}
	})
	switch kind {
	case "text":
		return text
	case "refusal":
		m.count(text)
		return ""
	case "input_text", "output_text":
		if m.api == chat.Responses {
			return text
		}
		m.count(text)
	case "", "thinking":
		m.count(text)
	case "image_url", "input_image":
		width, height := imageSize(url)
		m.images += m.Images.Tokens(width, height, cmp.Or(detail, own))
	case "input_audio":
		m.images += audioTokens + data/audioBytes
	default:
		m.count(text)
		m.images += FileTokens + data/fileBytes
	}
	m.exact = false
	return ""
}

// image returns an image's URL, as the inside of a JSON string, and its detail.
func (m *messageWeight) image() (url []byte, detail string) {
	inside := func() []byte {
		k, v := m.Kind(), m.Value()
		if k != chat.KindString {
			return nil
		}
		return v[1 : len(v)-1]
	}
	if m.Kind() == chat.KindString { // some servers accept a bare string
		return inside(), ""
	}
	m.Object(func(name string) {
		switch name {
		case "url":
			url = inside()
		case "detail":
			detail = m.Text()
		default:
			m.Value()
		}
	})
	return url, detail
}

// A CostCounter counts the tokens of requests. It caches the counts of messages and lists of
// tools by hashes of their bytes, so that in a growing conversation only the new message is
// counted. The zero value is ready to use. It is safe for concurrent use.
type CostCounter struct {
	Cache *tokens.Cache // if nil at the first use, set to a cache of 64k counts (1 MiB)
	brief *tokens.Cache // 16k more (256 KiB) for less useful counts
	once  sync.Once
}

const (
	cacheBits = 14
	briefBits = 12
)

// Of returns the MessageCosts of r.
func (c *CostCounter) Of(r *chat.Request) *MessageCosts {
	m := new(MessageCosts)
	c.Read(m, r)
	return m
}

// Read initialises m, which must be empty, for the messages of r.
func (c *CostCounter) Read(m *MessageCosts, r *chat.Request) {
	c.once.Do(func() {
		if c.Cache == nil {
			c.Cache = tokens.NewCache(cacheBits)
		}
		c.brief = tokens.NewCache(briefBits)
	})
	m.request, m.cache, m.brief = r, c.Cache, c.brief
}

// Count counts the whole request; see MessageCosts.Count.
func (c *CostCounter) Count(r *chat.Request, m CostModel, limit int) CostTokens {
	return c.Of(r).Count(m, limit)
}

// MessageCosts counts the messages of one request, hashing each only once. It is not safe for
// concurrent use.
type MessageCosts struct {
	request *chat.Request
	cache   *tokens.Cache
	brief   *tokens.Cache
	keys    []tokens.Key // by message; zero if not computed yet
}

// Released returns an empty MessageCosts that reuses the memory of c. c must not be used any
// more.
func (c *MessageCosts) Released() MessageCosts { return MessageCosts{keys: c.keys[:0]} }

// key returns the cache key of message n.
func (c *MessageCosts) key(n int) tokens.Key {
	all := c.request.Messages
	if len(c.keys) == 0 {
		c.keys = slices.Grow(c.keys, len(all))[:len(all)]
		clear(c.keys)
	}
	if c.keys[n] == (tokens.Key{}) {
		c.keys[n] = c.cache.Key(all[n].Of(c.request.Body))
	}
	return c.keys[n]
}

// Remember returns the cached result of count for message n and the key what. The result must be
// 0 or more and depend only on the bytes of the message and on what.
func (c *MessageCosts) Remember(n int, what uint64, count func() int) int {
	return remember(c.cache, c.key(n).Of(what), count)
}

// RememberBriefly is like Remember for results that depend on more than the message, of which
// there are many: they do not displace those of Remember and Count.
func (c *MessageCosts) RememberBriefly(n int, what uint64, count func() int) int {
	return remember(c.brief, c.key(n).Of(what), count)
}

func remember(in *tokens.Cache, k tokens.Key, count func() int) int {
	if v, _, ok := in.Get(k); ok {
		return v
	}
	v := count()
	in.Put(k, v, true)
	return v
}

const (
	// imageHeader is how many bytes of a JPEG are read to find its size. What cameras put before
	// it (EXIF with a preview, a color profile) is smaller.
	imageHeader = 256 << 10
	// maxSide is the longest side accepted, in pixels: the limit of JPEG and GIF.
	maxSide = 1<<16 - 1
	// escapedHead is enough for 30 bytes in base64, even if each character is escaped.
	escapedHead = 256
)

// imageSize returns the size in pixels of a PNG, JPEG, GIF or WebP image in url, a data: URL in
// base64. It returns 0, 0 for anything else and for invalid data. The base64 may contain the
// escapes that JSON encoders write in it: \/ and \u002b.
//
// The format is recognised from the data, as upstreams do. Only a header is decoded, at most
// imageHeader bytes of it. An EXIF rotation is ignored: a rotated image costs the same.
func imageSize(url []byte) (width, height int) {
	const scheme, most = "data:image", 128
	comma := bytes.IndexByte(url[:min(len(url), most)], ',')
	if comma < 0 || len(url) < len(scheme) || !bytes.EqualFold(url[:len(scheme)], []byte(scheme)) || !bytes.HasSuffix(url[:comma], []byte(";base64")) {
		return 0, 0
	}
	data := url[comma+1:]
	data = data[:min(len(data), base64.StdEncoding.EncodedLen(imageHeader))]
	decoded := func(data []byte) io.Reader {
		return base64.NewDecoder(base64.StdEncoding, bytes.NewReader(unescaped(data)))
	}

	var head [30]byte
	if n, err := io.ReadFull(decoded(data[:min(len(data), escapedHead)]), head[:]); n == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0
	}
	width, height = headSize(&head)
	if bytes.HasPrefix(head[:], []byte("\xff\xd8")) {
		size, err := jpeg.DecodeConfig(decoded(data))
		if err != nil {
			return 0, 0
		}
		width, height = size.Width, size.Height
	}
	if min(width, height) < 1 || max(width, height) > maxSide {
		return 0, 0
	}
	return width, height
}

// headSize returns the size from the first bytes of a PNG, GIF or WebP; 0, 0 for other formats.
// The offsets are from the specifications: PNG's section 11.2.1, GIF89a's section 18, and for
// WebP RFC 6386, section 9.1, and RFC 9649, sections 2.7 and 3.4.
func headSize(head *[30]byte) (width, height int) {
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case string(head[:8]) == "\x89PNG\r\n\x1a\n" && string(head[12:16]) == "IHDR":
		return int(be.Uint32(head[16:])), int(be.Uint32(head[20:]))
	case string(head[:6]) == "GIF87a" || string(head[:6]) == "GIF89a":
		return int(le.Uint16(head[6:])), int(le.Uint16(head[8:]))
	case string(head[:4]) != "RIFF":
		return 0, 0
	}
	switch string(head[8:16]) {
	case "WEBPVP8 ":
		if string(head[23:26]) == "\x9d\x01\x2a" { // a key frame
			return int(le.Uint16(head[26:]) & 0x3fff), int(le.Uint16(head[28:]) & 0x3fff)
		}
	case "WEBPVP8L":
		if head[20] == 0x2f {
			both := le.Uint32(head[21:])
			return int(both&0x3fff) + 1, int(both>>14&0x3fff) + 1
		}
	case "WEBPVP8X":
		return int(le.Uint32(head[24:])&0xffffff) + 1, int(le.Uint32(head[26:])>>8) + 1
	}
	return 0, 0
}

// escapes undoes the escapes that JSON encoders write in base64.
var escapes = strings.NewReplacer(`\/`, "/", `\u002b`, "+", `\u002B`, "+")

// unescaped returns data without escapes. Most data has none.
func unescaped(data []byte) []byte {
	if bytes.IndexByte(data, '\\') < 0 {
		return data
	}
	return []byte(escapes.Replace(string(data)))
}
