// Package tokens counts what a text costs a model.
//
// A Set holds the encodings; an Encoding counts whole texts and remembers what
// it counted. Sum, Delta and Between count texts made of parts exactly, by
// recounting only what stands where the parts meet. The package knows nothing of
// messages, sources or budgets.
package tokens

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// What a chat message costs beside its texts, in tokens (OpenAI cookbook, "How
// to count tokens with tiktoken": tokens_per_message 3, tokens_per_name 1, every
// reply primed with 3; the role is counted as text and is one token).
const (
	RoleTokens      = 1
	MessageOverhead = 3 + RoleTokens
	NameOverhead    = 1
	ReplyOverhead   = 3
)

// A Counter counts tokens. exact is false where n is only an upper bound. It need
// not be additive: Count(a+b) may be less or more than Count(a)+Count(b).
type Counter interface {
	Count(text string) (n int, exact bool)
}

// The patterns by which the encodings split a text into pieces, from
// openai_public.py of OpenAI's tiktoken.
const (
	o200k = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	cl100k = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` +
		`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// A Set holds the encodings, each built when first asked for. It is safe for
// concurrent use; make it once.
type Set struct {
	load map[string]func() (*Encoding, error)
}

// New returns a Set with nothing built yet.
func New() *Set {
	s := &Set{load: map[string]func() (*Encoding, error){}}
	for name, pattern := range map[string]string{
		"o200k_base":  o200k,
		"cl100k_base": cl100k,
		"p50k_base":   gpt2,
		"r50k_base":   gpt2,
	} {
		s.load[name] = sync.OnceValues(func() (*Encoding, error) { return load(name, pattern) })
	}
	return s
}

// Encoding returns the named encoding: o200k_base, cl100k_base, p50k_base or
// r50k_base. The first call for a name takes about 0.3 s.
func (s *Set) Encoding(name string) (*Encoding, error) {
	get, ok := s.load[name]
	if !ok {
		return nil, fmt.Errorf("unknown encoding %q", name)
	}
	return get()
}

// load builds an encoding from the vocabulary in the binary. tiktoken-go's own
// GetEncoding would go through that package's global loader.
func load(name, pattern string) (*Encoding, error) {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("load vocabulary %s: %w", name, err)
	}
	core, err := tiktoken.NewCoreBPE(ranks, nil, pattern)
	if err != nil {
		return nil, fmt.Errorf("build encoding %s: %w", name, err)
	}
	return &Encoding{
		name:  name,
		bpe:   tiktoken.NewTiktoken(core, &tiktoken.Encoding{Name: name, PatStr: pattern, MergeableRanks: ranks}, nil),
		texts: newTable(14),
		atoms: newTable(14),
	}, nil
}

// An Encoding counts by one vocabulary. It is safe for concurrent use and
// remembers the counts of about 64k texts.
type Encoding struct {
	name  string
	bpe   *tiktoken.Tiktoken
	texts *table // counts of whole texts
	atoms *table // counts of what stands between two cuts: a word, mostly
}

// Name returns the encoding's name.
func (e *Encoding) Name() string { return e.name }

// maxAtom is how many bytes without a cut are still encoded: the reference
// encoder takes quadratic time on long pieces.
const maxAtom = 512

// Count returns the tokens of text, special tokens read as plain text.
//
// More than 512 bytes without a place where every encoding must start a new
// piece (600 letters, equals signs or line breaks in a row) are counted as their
// bytes; then exact is false and n an upper bound, for a token has at least one
// byte. So it is where text is not UTF-8, each bad byte counted as the three
// bytes of U+FFFD.
func (e *Encoding) Count(text string) (n int, exact bool) {
	if text == "" {
		return 0, true
	}
	k := e.texts.key(text)
	n, exact, ok := e.texts.get(k)
	if !ok {
		n, exact = e.count(text)
		e.texts.put(k, n, exact)
	}
	return n, exact
}

// count sums over the atoms of text.
func (e *Encoding) count(text string) (n int, exact bool) {
	if !utf8.ValidString(text) {
		return replaced(text), false
	}
	exact = true
	start := 0
	older, before := invalid, invalid
	for i := 0; i <= len(text); {
		after, size := first(text[i:])
		if i == len(text) || splits(older, before, after, text[i:]) {
			m, ok := e.atom(text[start:i])
			n, exact, start = n+m, exact && ok, i
		}
		older, before = before, after
		i += max(size, 1)
	}
	return n, exact
}

// atom counts a text that has no cut inside.
func (e *Encoding) atom(text string) (n int, exact bool) {
	if len(text) > maxAtom {
		return len(text), false
	}
	k := e.atoms.key(text)
	n, _, ok := e.atoms.get(k)
	if !ok {
		n = len(e.bpe.EncodeOrdinary(text))
		e.atoms.put(k, n, true)
	}
	return n, true
}

// replaced returns the bytes of text once each bad byte has become U+FFFD.
func replaced(text string) int {
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
