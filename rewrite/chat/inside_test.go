package chat_test

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// code matches a \u escape that is not a surrogate, or a pair of surrogates.
var code = regexp.MustCompile(`^\\u([0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})`)

// inside is the reference implementation: it scans a string byte by byte.
func inside(b []byte, i int) (at int, seen chat.Marks) {
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\\' && i+1 < len(b) && strings.IndexByte(`"\/bfnrt`, b[i+1]) >= 0:
			seen |= chat.MarkEscape
			i++
		case c == '\\' && code.Match(b[i:]):
			seen |= chat.MarkCode
			i += len(code.Find(b[i:])) - 1
		case c == '"', c == '\\', c < 0x20:
			return i, seen
		}
		seen |= markOf(c)
	}
	return i, seen
}

func markOf(c byte) chat.Marks {
	if c >= 0x80 {
		return chat.MarkWide
	}
	return 0
}

func checkInside(t *testing.T, b []byte, i int) {
	t.Helper()
	at, least := inside(b, i)
	most := least // the scan reads the whole step in which the string ends
	for _, c := range b[at:min(len(b), at+64)] {
		most |= markOf(c)
	}
	if a, seen := chat.Inside(b, i); a != at || seen&least != least || seen|most != most {
		t.Fatalf("inside(%q, %d) = %d, %b; want %d, %b to %b", b, i, a, seen, at, least, most)
	}
}

// Each byte, alone and after one to four backslashes, at each offset of a text of several blocks,
// after plain text or an escape.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, fill := range []string{"x", `\n`, "é"} {
		text := bytes.Repeat([]byte(fill), 100)[:100]
		for slashes := range 5 {
			for c := range 256 {
				for at := 0; at+slashes < len(text); at++ {
					if testing.Short() && (at+c)%9 > 0 {
						continue
					}
					b := bytes.Clone(text)
					copy(b[at:], strings.Repeat(`\`, slashes))
					b[at+slashes] = byte(c)
					checkInside(t, b, 0)
				}
			}
		}
	}
}

// A run of backslashes of each length at each offset of a text of three blocks, followed by a
// byte that makes an escape, one that does not, a quote and a control character; and at the end
// of texts of one to three blocks.
func TestInsideRuns(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 3*64+1)
	for begin := range text {
		b := bytes.Clone(text)
		for end := begin + 1; end < len(b); end++ {
			b[end-1] = '\\'
			for _, after := range []byte("nu\"\n") {
				b[end] = after
				checkInside(t, b, 0)
			}
		}
	}
	for begin := range text {
		b := append(bytes.Clone(text[:begin]), bytes.Repeat([]byte(`\`), len(text)-begin)...)
		for size := max(64, begin); size <= len(b); size++ {
			checkInside(t, b[:size], 0)
		}
	}
}

func TestInsideRandom(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	alphabets := []string{`\n`, `\u0dD78`, `\\uuddD8cF`, `\\\\\uuu0189dDeF`, `\\\\n"u`, "ab\\\x1fé<", `abcdefghijklmnopqrstuvwxyz &,.\n\t`}
	n := 50_000
	if testing.Short() {
		n = 10_000
	}
	for range n {
		alphabet := alphabets[r.IntN(len(alphabets))]
		b := make([]byte, r.IntN(200))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		checkInside(t, b, r.IntN(len(b)+1))
	}
}

// A \u escape at each offset of a text of several blocks, consisting of plain text or of such
// escapes, with each byte in place of each of its digits.
func TestInsideCodes(t *testing.T) {
	t.Parallel()
	step := 1
	if testing.Short() {
		step = 11 // and so every place within a word
	}
	for _, fill := range []string{"x", `\u4f11`, `\n`, `\uD7ff\\`, `\ud83d\ude42`} {
		text := []byte(strings.Repeat(fill, 200)[:192])
		for begin := 0; begin+6 <= len(text); begin += step {
			for _, with := range []string{`\u00e9`, `\ud7FF`, `\uD800`, `\udfff`, `\uE000`, `\u"000`, `\u12\"`, `\u123`, `\ud83D\uDe42`, `\uDBff\udC00`, `\ud83d\ud83d`, `\ude42\ud83d`, `\ud83d\u0041`, `\ud83d..\ude42`, `\ud83d\\\ude42`} {
				b := append(bytes.Clone(text[:begin]), with...)
				checkInside(t, b, 0)
				checkInside(t, append(b, text[min(len(text), len(b)):]...), 0)
			}
		}
	}
	for at := range 64 {
		for digit := 1; digit < 6; digit++ {
			b := []byte(strings.Repeat("x", at) + `\u4f11` + strings.Repeat("x", 128))
			for c := at % step; c < 256; c += step {
				b[at+digit] = byte(c)
				checkInside(t, b, 0)
			}
		}
	}
}

func FuzzInside(f *testing.F) {
	f.Add([]byte(`a\\\"\n`+strings.Repeat("x", 40)+`\u00e9"`), 1)
	f.Fuzz(func(t *testing.T, b []byte, i int) {
		if i >= 0 && i <= len(b) {
			checkInside(t, b, i)
		}
	})
}
