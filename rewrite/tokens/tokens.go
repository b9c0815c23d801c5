// Package tokens counts the tokens of texts.
//
// A Set holds the encodings; an Encoding counts whole texts and caches the counts. Sum, Delta and
// Between count texts made of parts exactly, by recounting only the text where the parts meet.
// The package knows nothing of messages, sources or budgets.
package tokens

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"
)

// Version identifies the way of counting. Increment it with every change, so that stored counts
// are recomputed. 2: runs of more than 512 bytes are counted; 1 gave an upper bound for them.
const Version = "2"

// The overhead of a chat message in tokens (OpenAI cookbook, "How to count tokens with tiktoken":
// tokens_per_message 3, tokens_per_name 1, every reply primed with 3; the role is counted as text
// and is one token).
const (
	RoleTokens      = 1
	MessageOverhead = 3 + RoleTokens
	NameOverhead    = 1
	ReplyOverhead   = 3
)

// A Counter counts tokens. If exact is false, n is an upper bound. Counts need not add up:
// Count(a+b) may be less or more than Count(a)+Count(b).
type Counter interface {
	Count(text string) (n int, exact bool)
}

// A Set holds the encodings. Each is built when first requested. It is safe for concurrent use
// and should be created once.
type Set struct {
	load map[string]func() (*Encoding, error)
}

// New returns a Set without building any encoding.
func New() *Set {
	s := &Set{load: map[string]func() (*Encoding, error){}}
	for _, e := range []struct {
		name       string
		vocabulary func() (*vocabulary, error)
		split      splitter
	}{
		{o200k, o200kWords, splitO200k},
		{cl100k, cl100kWords, splitCL100k},
		{p50k, p50kWords, splitGPT2},
		{r50k, r50kWords, splitGPT2},
	} {
		s.load[e.name] = sync.OnceValues(func() (*Encoding, error) {
			v, err := e.vocabulary()
			if err != nil {
				return nil, fmt.Errorf("load vocabulary %s: %w", e.name, err)
			}
			return newEncoding(v, runes(), e.split), nil
		})
	}
	return s
}

// Encoding returns the named encoding: o200k_base, cl100k_base, p50k_base or r50k_base. The first
// call for a name takes up to 50 ms.
func (s *Set) Encoding(name string) (*Encoding, error) {
	get, ok := s.load[name]
	if !ok {
		return nil, fmt.Errorf("unknown encoding %q", name)
	}
	return get()
}

// An Encoding counts with one vocabulary. It is safe for concurrent use and caches the counts of
// about 64k texts.
type Encoding struct {
	vocabulary *vocabulary
	kinds      *kinds
	split      splitter
	texts      *Cache    // counts of whole texts
	coders     sync.Pool // of *coder
}

func newEncoding(v *vocabulary, k *kinds, split splitter) *Encoding {
	return &Encoding{
		vocabulary: v,
		kinds:      k,
		split:      split,
		texts:      NewCache(14),
		coders:     sync.Pool{New: func() any { return newCoder(v) }},
	}
}

// Count returns the number of tokens of text in linear time. Special tokens are read as plain
// text.
//
// What a model sees of bytes that are not UTF-8 depends on the decoder. For such a text exact is
// false and n is an upper bound: its number of bytes, with each invalid one counted as the three
// bytes of U+FFFD, because a token has at least one byte.
func (e *Encoding) Count(text string) (n int, exact bool) {
	if text == "" {
		return 0, true
	}
	k := e.texts.key(text)
	n, exact, ok := e.texts.Get(k)
	if !ok {
		n, exact = e.count(text)
		e.texts.Put(k, n, exact)
	}
	return n, exact
}

func (e *Encoding) count(text string) (n int, exact bool) {
	if !utf8.ValidString(text) {
		return replacedLen(text), false
	}
	c := e.coder()
	defer e.coders.Put(c)
	e.code(c, text, math.MaxInt)
	return c.n, true
}

// CountUpTo counts text from its beginning until the count exceeds limit. If n is at most limit,
// it is the count of text, and end its length. Otherwise the whole count exceeds limit too, and n
// is the count of text[:end]. The time depends on limit only, however long text is, and nothing
// is cached. If the part that it reads is not UTF-8, n is an upper bound, as with Count.
func (e *Encoding) CountUpTo(text string, limit int) (n, end int) {
	if limit < len(text)/maxToken { // more bytes than limit tokens can have
		end = max(0, (limit+1)*maxToken)
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		text = text[:min(end, len(text))]
	}
	if !utf8.ValidString(text) {
		return replacedLen(text), len(text)
	}
	c := e.coder()
	defer e.coders.Put(c)
	end = e.code(c, text, limit)
	return c.n, end
}

// coder returns a coder with its count reset.
func (e *Encoding) coder() *coder {
	c := e.coders.Get().(*coder)
	c.n, c.keep = 0, false
	return c
}

// code encodes text, which must be UTF-8, piece by piece until there are more than limit tokens,
// and returns where it stopped.
func (e *Encoding) code(c *coder, text string, limit int) int {
	i := 0
	for i < len(text) && c.n <= limit {
		end := e.split(e.kinds, text, i)
		c.piece(text, i, end)
		i = end
	}
	return i
}

// replacedLen returns the length of text with each invalid byte replaced by U+FFFD.
func replacedLen(text string) int {
	n := len(text)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			n += len("\uFFFD") - 1
		}
		i += size
	}
	return n
}

// A Cache caches counts by hashes of the texts. It has a fixed number of entries, four to a cache
// line, and no locks. It is safe for concurrent use.
//
// It only saves time: with the build tag sidenote_plain it caches nothing. A KiB of text counted
// before takes 0.05 µs with it and 4.4 without (BenchmarkCountWarm), a conversation of 28
// messages 8 µs and 143 (BenchmarkCountConversation of package rewrite).
//
// An entry is two words: value, and check, which is the first hash XOR value. If two writers mix
// their words, the hash does not match and the entry is a miss (the scheme of Hyatt and Mann's
// lockless transposition table). 96 bits of two hashes, each with its own seed, are compared. One
// hash of the runtime is not enough: one pair in 10^10 of long texts made for the purpose
// collides, and 100,000 texts make that many pairs. Both hashes collide for one pair in 10^20.
type Cache struct {
	seeds [2]maphash.Seed
	lines [][4]entry
}

type entry struct{ check, value atomic.Uint64 }

// A Key identifies one of the counts of a text, by the text's two hashes.
type Key struct{ a, b uint64 }

// NewCache returns a Cache of 4 << bits counts, 16 bytes each.
func NewCache(bits int) *Cache {
	return &Cache{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		lines: make([][4]entry, 1<<bits),
	}
}

// Key returns the key of a text. It takes the time of hashing it.
func (c *Cache) Key(text []byte) Key {
	return c.key(unsafe.String(unsafe.SliceData(text), len(text))) //nolint:gosec // a copy would cost more than the hash, which keeps nothing
}

func (c *Cache) key(text string) Key {
	return Key{a: hash(c.seeds[0], text), b: hash(c.seeds[1], text)}
}

// hash hashes text in one pass, as a map does. maphash.String restarts every 128 bytes and takes
// four times as long.
func hash(seed maphash.Seed, text string) uint64 { return maphash.Comparable(seed, text) }

// Of returns the key for one of several counts of the same text.
func (k Key) Of(what uint64) Key {
	const odd, other = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93 // odd is 2^64 over the golden ratio
	return Key{a: k.a ^ what*odd, b: k.b ^ what*other>>32}
}

func (c *Cache) line(k Key) *[4]entry { return &c.lines[k.b&uint64(len(c.lines)-1)] }

// pack returns a value: the upper half of the second hash, 31 bits of the count plus one, and one
// bit for exact. Empty entries have 0 in both words.
func pack(k Key, n int, exact bool) uint64 {
	v := k.b&^math.MaxUint32 | uint64(n+1)<<1
	if exact {
		v |= 1
	}
	return v
}

// Get returns the count stored by Put; ok is false if there is none.
func (c *Cache) Get(k Key) (n int, exact, ok bool) {
	if plain {
		return 0, false, false
	}
	line := c.line(k)
	for i := range line {
		v := line[i].value.Load()
		if line[i].check.Load()^v == k.a && (v^k.b)>>32 == 0 && v&math.MaxUint32 != 0 {
			return int(v&math.MaxUint32>>1) - 1, v&1 == 1, true
		}
	}
	return 0, false, false
}

// Put stores a count of 0 or more in a free entry of its line, else in one of the four at random.
func (c *Cache) Put(k Key, n int, exact bool) {
	if n < 0 || n >= math.MaxInt32 {
		return
	}
	line := c.line(k)
	at := rand.IntN(len(line))
	for i := range line {
		if line[i].value.Load() == 0 {
			at = i
			break
		}
	}
	v := pack(k, n, exact)
	line[at].check.Store(k.a ^ v)
	line[at].value.Store(v)
}

// A Counted is a text with its count by an Encoding.
type Counted struct {
	Text   string
	Tokens int
}

// WithKnownCounts returns a Counter that counts like c, an Encoding, but uses the known counts of
// texts. Sum and Delta mostly count such a text without its last word, without its first line, or
// with a little more; then only the difference is counted. The first fit of new sources takes 35 µs
// with it and 56 without (BenchmarkColdFit of package rewrite).
func WithKnownCounts(c Counter, texts ...Counted) Counter {
	if len(texts) == 0 {
		return c
	}
	k := &knownCounter{Counter: c, texts: make([]knownText, len(texts))}
	for i, t := range texts {
		k.texts[i] = knownText{t, firstSeam(t.Text), lastCut(t.Text)}
	}
	return k
}

type knownCounter struct {
	Counter
	texts []knownText
}

// A knownText is a text whose count is known.
type knownText struct {
	Counted
	first int // offset of its first seam
	last  int // offset of its last cut
}

// lastCut returns the offset of the last place where text may be cut, 0 if there is none.
func lastCut(text string) int {
	for i := len(text); i > 0; {
		_, size := last(text[:i])
		i -= size
		if mayCut(text[:i], text[i:]) {
			return i
		}
	}
	return 0
}

// Count counts text, based on a known text if possible.
func (k *knownCounter) Count(text string) (n int, exact bool) {
	for i := range k.texts {
		t := &k.texts[i]
		for _, from := range [...]int{0, t.first} {
			if n, ok := k.from(t, from, text); ok {
				return n, true
			}
		}
	}
	return k.Counter.Count(text)
}

// from counts text if it is most of t.Text[from:], or all of that and not much more.
func (k *knownCounter) from(t *knownText, from int, text string) (n int, ok bool) {
	rest := t.Text[from:]
	switch {
	case 2*len(text) >= len(rest) && strings.HasPrefix(rest, text):
		return k.part(t, from, from+len(text))
	case len(text) <= 2*len(rest) && t.last > from && strings.HasPrefix(text, rest):
		n, ok = k.part(t, from, t.last)
		more, exact := k.Counter.Count(text[t.last-from:])
		return n + more, ok && exact
	}
	return 0, false
}

// part returns the count of a part of a known text, if the text may be cut at both ends of the
// part.
func (k *knownCounter) part(t *knownText, from, to int) (n int, ok bool) {
	before, text, after := t.Text[:from], t.Text[from:to], t.Text[to:]
	if after != "" && !mayCut(text, after) || before != "" && !mayCut(before, text) {
		return 0, false
	}
	n = t.Tokens
	for _, rest := range [...]string{before, after} {
		if rest == "" {
			continue
		}
		less, exact := k.Counter.Count(rest)
		if !exact {
			return 0, false
		}
		n -= less
	}
	return n, n > 0
}

// Sum returns the Count of all parts put together. For an Encoding it is exact if the whole is
// UTF-8; it is an upper bound if exact is false.
//
// Parts that meet at a seam (such as a single line feed at the end of the left one, and neither
// white space nor a slash at the start of the right one) are counted as they are, so that their
// counts can be cached. Elsewhere the text around the join is counted together.
func Sum(c Counter, parts ...string) (n int, exact bool) {
	s := sum{counter: c, exact: true}
	for _, p := range parts {
		s.add(p, 0)
	}
	return s.end()
}

// Delta returns Count(old+added…) - Count(old), the tokens by which old grows; in rare cases it
// is negative. It reads only the last few words of old, however long that is. It is an upper
// bound if exact is false.
func Delta(c Counter, old string, added ...string) (n int, exact bool) {
	g := Growing(c, old)
	for _, p := range added {
		g.Add(p, 0)
	}
	return g.End()
}

// A Growth is an incremental Delta for parts whose counts may be known.
type Growth struct {
	old  string // the text that grows; "" after the first part
	tail string // the end of the old text that is counted together with what follows
	sum
}

// Growing returns a Growth of the text old.
func Growing(c Counter, old string) Growth {
	return Growth{old: old, sum: sum{counter: c, exact: true}}
}

// Add appends text. tokens is its exact count by itself, or 0 if unknown; of a text with a known
// count only the words at its ends are read.
func (g *Growth) Add(text string, tokens int) {
	if text != "" && g.old != "" {
		if !meetAtSeam(g.old, text) {
			g.tail = g.old[lastSeam(g.old):]
		}
		g.old, g.pending = "", g.tail
	}
	g.add(text, tokens)
}

// End returns the tokens by which the text has grown. Add must not be called afterwards.
func (g *Growth) End() (n int, exact bool) {
	if g.old != "" { // nothing was added
		return 0, true
	}
	return g.less(sum{counter: g.counter, exact: true, pending: g.tail}, len(g.tail))
}

// Between returns Count(left+mid+right) - Count(left+right), the tokens by which a text grows
// when mid is inserted; in rare cases it is negative. It reads only a few words of left and
// right. It is an upper bound if exact is false.
func Between(c Counter, left, mid, right string) (n int, exact bool) {
	if mid == "" {
		return 0, true
	}
	tail, head := left[lastSeam(left):], right[:firstSeam(right)]
	if meetAtSeam(left, right) {
		if meetAtSeam(left, mid) {
			tail = ""
		}
		if meetAtSeam(mid, right) {
			head = ""
		}
	}
	before := sum{counter: c, exact: true, pending: tail}
	before.add(head, 0)
	after := sum{counter: c, exact: true, pending: tail}
	after.add(mid, 0)
	after.add(head, 0)
	return after.less(before, len(tail)+len(head))
}

// A sum counts a text that comes in parts. However many parts there are, no byte is read or
// copied more than a few times: an attacker may send many parts without a seam.
type sum struct {
	counter    Counter
	n          int
	exact      bool
	pending    string           // the text since the last cut, not counted yet
	known      int              // its exact token count; 0 if unknown
	uncuttable int              // number of leading bytes of pending that are known to have no cut
	joined     *strings.Builder // ends with pending; nil if pending was not joined, or is short
}

// add appends a part. known is its exact token count by itself, or 0.
func (s *sum) add(part string, known int) {
	if part == "" {
		return
	}
	if s.pending != "" && !meetAtSeam(s.pending, part) {
		tail, bare := lastSeamBehind(s.pending, s.uncuttable)
		if tail > 0 {
			s.count(s.pending[:tail], s.without(s.known, s.pending[tail:]))
		}
		s.uncuttable, s.known = 0, 0
		if bare { // a cut at the last byte may depend on what follows
			s.uncuttable = max(len(s.pending)-tail-2, 0)
		}
		head := firstSeam(part)
		s.join(s.pending[tail:], part[:head])
		if head == len(part) {
			return
		}
		known, part = s.without(known, part[:head]), part[head:]
	}
	s.count(s.pending, s.known)
	s.pending, s.known, s.uncuttable, s.joined = part, known, 0, nil
}

// without returns the tokens of a text after removing part, which begins or ends at a cut. known
// is the count of the whole text; if it is 0, so is the result.
func (s *sum) without(known int, part string) int {
	if known == 0 || part == "" {
		return known
	}
	less, exact := s.counter.Count(part)
	if !exact {
		return 0
	}
	return max(known-less, 0)
}

// join makes tail, the end of pending, and head the new pending text.
func (s *sum) join(tail, head string) {
	const short = 128 // copying this little is faster than a Builder
	if s.joined == nil {
		if len(tail) < short {
			s.pending = tail + head
			return
		}
		s.joined = new(strings.Builder)
		s.joined.WriteString(tail)
	}
	s.joined.WriteString(head)
	all := s.joined.String()
	s.pending = all[len(all)-len(tail)-len(head):]
}

func (s *sum) count(text string, known int) {
	if text == "" || known > 0 {
		s.n += known
		return
	}
	n, exact := s.counter.Count(text)
	s.n += n
	s.exact = s.exact && exact
}

func (s *sum) end() (n int, exact bool) {
	s.count(s.pending, s.known)
	s.pending, s.known = "", 0
	return s.n, s.exact
}

// less returns the difference of two sums; the text of before has size bytes. If before is not
// exact, the least number of tokens that size bytes can have is subtracted instead.
func (s *sum) less(before sum, size int) (n int, exact bool) {
	after, exactAfter := s.end()
	least, exactBefore := before.end()
	if !exactBefore {
		least = (size + maxToken - 1) / maxToken
	}
	return after - least, exactAfter && exactBefore
}
