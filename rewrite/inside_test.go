package rewrite_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"sidenote/rewrite"
)

// inside is what a string's text comes to, byte by byte.
func inside(b []byte, i int) (at int, escapes, wide bool) {
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\' && i+1 < len(b) && strings.IndexByte(`"\/bfnrt`, b[i+1]) >= 0:
			escapes = true
			i++
		case c == '"', c == '\\', c < 0x20:
			return i, escapes, wide
		case c >= 0x80:
			wide = true
		}
	}
	return i, escapes, wide
}

func checkInside(t *testing.T, b []byte, i int) {
	t.Helper()
	at, escapes, wide := inside(b, i)
	for name, f := range map[string]func([]byte, int) (int, bool, bool){"inside": rewrite.Inside, "insideWords": rewrite.InsideWords} {
		if a, e, w := f(b, i); a != at || e != escapes || w != wide {
			t.Fatalf("%s(%q, %d) = %d, %v, %v; want %d, %v, %v", name, b, i, a, e, w, at, escapes, wide)
		}
	}
}

// Each byte, alone and after one to four backslashes, at each place of a text of
// some blocks, with nothing of note or an escape before it.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, fill := range []string{"x", `\n`, "é"} {
		text := bytes.Repeat([]byte(fill), 100)[:100]
		for slashes := range 5 {
			for c := range 256 {
				for at := 0; at+slashes < len(text); at++ {
					b := bytes.Clone(text)
					copy(b[at:], strings.Repeat(`\`, slashes))
					b[at+slashes] = byte(c)
					checkInside(t, b, 0)
				}
			}
		}
	}
}

func TestInsideRandom(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	alphabets := []string{`\n`, `\\\\n"u`, "ab\\\x1fé", `abcdefghijklmnopqrstuvwxyz ,.\n\t`}
	for range 50_000 {
		alphabet := alphabets[r.IntN(len(alphabets))]
		b := make([]byte, r.IntN(200))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		checkInside(t, b, r.IntN(len(b)+1))
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
