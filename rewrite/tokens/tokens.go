// Package tokens counts the tokens of texts.
//
// A Set holds the encodings; an Encoding counts whole texts and caches the counts. Sum, Delta and
// Between count texts made of parts exactly, by recounting only the text where the parts meet.
// The package knows nothing of messages, sources or budgets.
package tokens

import (
	"fmt"
	"math"
	"sync"
	"unicode/utf8"
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
