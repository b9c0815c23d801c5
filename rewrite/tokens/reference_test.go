package tokens_test

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	loader "github.com/pkoukk/tiktoken-go-loader"
	charset "golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"pgregory.net/rapid"
)

// same fails t if an encoding's tokens of text differ from the reference's.
func same(t interface {
	Helper()
	Fatalf(string, ...any)
}, name, text string,
) {
	t.Helper()
	e, err := set.Encoding(name)
	if err != nil {
		t.Fatalf("Encoding(%s): %v", name, err)
	}
	want := oracle(name).EncodeOrdinary(text)
	if n, _ := e.CountUpTo(text, math.MaxInt); utf8.ValidString(text) && n != len(want) {
		t.Fatalf("%s counts %d in %q, want %d", name, n, text, len(want))
	}
	got := e.Append(nil, text)
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s of %q: token %d and on is %v, want %v", name, text, i, got[i:min(len(got), i+9)], want[i:min(len(want), i+9)])
}

// rare are runes of every kind that the patterns distinguish, mostly those for which the patterns
// have special cases.
var rare = slices.Concat(
	[]rune("aaAAzZéÉßǅʰªºіЖи中文の한ไा"),
	[]rune("\u0301\u0300\u0903\u20dd\u0483\u0e33\ufe0f"),
	[]rune("0129٣½Ⅷ二²௧"),
	[]rune("  \t\n\n\r\v\f\u0085\u00a0\u2028\u3000"),
	[]rune("''/..,!-=_#$^`~|<>{}\\\"。、’…\u200d\u200b\u00ad\ufeff\ufffd\x00\x7f"),
	[]rune("sStTdDmMrReEvVlLſK"),
	[]rune("😀👩🇩🏽𝔸𐐀𐐨𒀀\u0378\U000e0100\U0010ffff"),
)

func TestRunesInAnyOrder(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				for range 20 {
					same(t, name, string(rapid.SliceOfN(rapid.SampledFrom(rare), 0, 24).Draw(t, "text")))
				}
			})
		})
	}
}

func TestBytesInAnyOrder(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				same(t, name, string(rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "text")))
				same(t, name, strings.ToValidUTF8(rapid.String().Draw(t, "string"), ""))
			})
		})
	}
}

// Pieces longer than a window are merged in parts; the reference takes quadratic time for them.
func TestLongPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := func(alphabet string, n int) string {
		runes := []rune(alphabet)
		var b strings.Builder
		for b.Len() < n {
			b.WriteRune(runes[random.IntN(len(runes))])
		}
		return b.String()
	}
	texts := []string{
		strings.Repeat("a", 5000), strings.Repeat(" ", 5001), strings.Repeat("\n", 5000), strings.Repeat("=", 5002),
		strings.Repeat("ab", 2500), strings.Repeat("休暇", 900), strings.Repeat("abcdefghijk", 500),
		letters("ab", 5000), letters("abcdefghijklmnopqrstuvwxyz", 8000), letters("=-_*#", 5000), letters("天地玄黄宇宙洪荒日月盈", 5000),
	}
	direct, windows := 40, 8
	if testing.Short() {
		direct, windows = 20, 2
	}
	for n, name := range names[:3] { // r50k_base merges like p50k_base
		t.Run(name, func(t *testing.T) {
			for i, text := range texts {
				if testing.Short() && i%3 != n {
					continue
				}
				same(t, name, text)
			}
			for range direct { // lengths on both sides of maxDirect
				same(t, name, letters("abcdefgh", 50+random.IntN(30)))
			}
			for range windows { // lengths on both sides of a window
				same(t, name, letters("aabbe", 4060+random.IntN(80)))
			}
		})
	}
}

func TestEveryTokenIsItself(t *testing.T) {
	for _, name := range names {
		ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
		if err != nil {
			t.Fatal(err)
		}
		e := encoding(t, name)
		var ids []int
		for token, id := range ranks {
			if testing.Short() && id%8 > 0 {
				continue
			}
			if len(token) > 128 {
				t.Errorf("%s: token of %d bytes", name, len(token))
			}
			if e.Token(id) != token {
				t.Fatalf("%s: text of %d is %q, want %q", name, id, e.Token(id), token)
			}
			if !utf8.ValidString(token) {
				continue
			}
			if ids = e.Append(ids[:0], token); len(ids) != 1 || ids[0] != id {
				same(t, name, token) // two pieces
			}
		}
	}
}

// goroot returns the directory of Go's own source; "" if unknown.
func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// sample returns up to n bytes of each matching file, in whole lines.
func sample(t testing.TB, n int, pattern ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > n {
			b = b[:n]
		}
		s := string(b)
		texts = append(texts, s[:strings.LastIndexByte(s, '\n')+1])
	}
	return texts
}

// languages are directories of web pages in the tests of an encoding detector.
var languages = map[string]charset.Encoding{
	"Big5": traditionalchinese.Big5, "GB2312": simplifiedchinese.GBK, "SHIFT_JIS": japanese.ShiftJIS, "EUC-KR": korean.EUCKR,
	"windows-1251-russian": charmap.Windows1251, "KOI8-R": charmap.KOI8R, "windows-1250-hungarian": charmap.Windows1250,
	"windows-1255-hebrew": charmap.Windows1255, "iso-8859-7-greek": charmap.ISO8859_7, "TIS-620": charmap.Windows874,
}

// pages returns texts in many languages, from the source of a dependency.
func pages(t testing.TB) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/wlynxg/chardet").Output()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for name, from := range languages {
		for _, text := range sample(t, 64<<10, strings.TrimSpace(string(dir)), "test", "testdata", name, "*") {
			decoded, err := from.NewDecoder().String(text)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, decoded)
		}
	}
	return texts
}

// Real text, some megabytes of it: web pages in nine languages, Go's own source and an English
// book, and the collections next to the repository if present.
func TestRealText(t *testing.T) {
	const n = 16_000
	texts := slices.Concat(
		pages(t),
		sample(t, 20*n, goroot(), "src/testdata/*.txt"),
		sample(t, 4*n, "../../../shared/ir/*/*.jsonl"),
		sample(t, n, goroot(), "src/unicode/*.go"),
		sample(t, n, goroot(), "src/net/http/*.go"),
		sample(t, n/4, goroot(), "src/compress/testdata/*"),
		sample(t, n, "testdata/text/*"),
	)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size < 3<<20 {
		t.Fatalf("%d bytes of text", size)
	}
	step := 1
	if testing.Short() {
		step = 10
	}
	for first, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := first; i < len(texts); i += step {
				same(t, name, texts[i])
			}
		})
	}
}

func FuzzAppend(f *testing.F) {
	for _, p := range pieces {
		f.Add(p + "x" + p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		for _, name := range names {
			same(t, name, text)
		}
	})
}

// FuzzRunes interprets a text as indices of rare runes, so that the fuzzer need not find UTF-8.
func FuzzRunes(f *testing.F) {
	f.Add([]byte("ordinary"))
	f.Fuzz(func(t *testing.T, indices []byte) {
		if len(indices) > 512 {
			return
		}
		var b strings.Builder
		for _, i := range indices {
			b.WriteRune(rare[int(i)%len(rare)])
		}
		for _, name := range names {
			same(t, name, b.String())
		}
	})
}
