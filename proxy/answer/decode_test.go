package answer_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"sidenote/proxy/route"
)

// packers encode a text with each Content-Encoding.
var packers = map[string]func(string) []byte{
	"gzip":    func(s string) []byte { return fasthttp.AppendGzipBytes(nil, []byte(s)) },
	"deflate": func(s string) []byte { return fasthttp.AppendDeflateBytes(nil, []byte(s)) },
	"br":      func(s string) []byte { return fasthttp.AppendBrotliBytes(nil, []byte(s)) },
	"zstd":    func(s string) []byte { return fasthttp.AppendZstdBytes(nil, []byte(s)) },
}

// readStream calls readUsage for a chat stream.
func readStream(encoding string, pieces ...string) string {
	return readUsage(route.Chat, true, encoding, pieces...)
}

func TestUsageCompressed(t *testing.T) {
	for encoding, pack := range packers {
		for name, c := range golden {
			if len(c.answer) > 64<<10 {
				continue // a megabyte of one letter takes long to be cut into pieces
			}
			packed := string(pack(c.answer))
			if got := readUsage(c.on, c.stream(), encoding, piecesUsage(packed, 1)...); got != c.want {
				t.Errorf("%s, %s: got %s, want %s", encoding, name, got, c.want)
			}
		}
		if got := readStream(" "+strings.ToUpper(encoding), string(pack(openAIStream))); got != "8(0)+1(0)" {
			t.Errorf("%s in capitals: got %s", encoding, got)
		}
		if got := readStream(encoding, "no such thing"); got != "undecodable" {
			t.Errorf("%s: got %s of nonsense", encoding, got)
		}
		if got := readStream(encoding); got != "absent" {
			t.Errorf("%s: got %s of nothing", encoding, got)
		}
		if got := readStream(encoding, strings.Repeat("x", 256<<10+1)); got != "undecodable" {
			t.Errorf("%s: got %s of too much", encoding, got)
		}
		long := strings.Repeat("x", 4<<20) + openAIStream
		if got := readStream(encoding, string(pack(long))); got != "undecodable" {
			t.Errorf("%s: got %s of what is too long when decoded", encoding, got)
		}
	}
	for _, encoding := range []string{"gzip, br", "compress", "x"} {
		if got := readStream(encoding, openAIStream); got != "undecodable" {
			t.Errorf("%s: got %s", encoding, got)
		}
	}
}

// flushing encodes events as a streaming server does, with a flush after each.
func flushing(t *testing.T, encoding string, events []string) []byte {
	t.Helper()
	type writer interface {
		io.Writer
		Flush() error
	}
	var b bytes.Buffer
	var w writer
	switch encoding {
	case "deflate":
		w = zlib.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	for _, e := range events {
		if _, err := io.WriteString(w, e); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A truncated stream is read as far as it goes.
func TestCutCompressed(t *testing.T) {
	first, second := "data: {\"usage\":{\"prompt_tokens\":31,\"completion_tokens\":1}}\n\n", "data: {\"choices\":[]}\n\n"
	for _, encoding := range []string{"deflate", "zstd"} {
		packed := string(flushing(t, encoding, []string{first, second}))
		if got := readStream(encoding, packed); got != "31(0)+1(0)" {
			t.Errorf("%s without its end: got %s", encoding, got)
		}
		if got := readStream(encoding, packed[:len(packed)-3]); got != "31(0)+1(0)" {
			t.Errorf("%s cut in an event: got %s", encoding, got)
		}
	}
	text := first
	for rest := range slices.Chunk([]byte(noise(300_000)), 1000) {
		text += string(rest) + "\n" + first
	}
	step := 2999
	if testing.Short() {
		step = 9973
	}
	for encoding, pack := range packers {
		packed, found := string(pack(text)), false
		for cut := 0; cut < len(packed); cut += step {
			got := readStream(encoding, packed[:cut])
			// The br decoder cannot tell truncated from malformed data.
			if got != "31(0)+1(0)" && got != "absent" && (encoding != "br" || got != "undecodable") {
				t.Errorf("%s cut at %d of %d: got %s", encoding, cut, len(packed), got)
			}
			found = found || got == "31(0)+1(0)"
		}
		if !found {
			t.Errorf("%s: no cut leaves anything", encoding)
		}
	}
}

// noise returns n letters that compress badly, so that the text has several blocks.
func noise(n int) string {
	letters := make([]byte, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range letters {
		letters[i] = byte('a' + random.IntN(4))
	}
	return string(letters)
}

// A decompression bomb costs no more memory than the limits allow.
func TestBomb(t *testing.T) {
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x03, 0x00, 0x10, 'x'} // one block, and 512 MiB of window
	bombs := map[string][]byte{"zstd": window}
	for encoding, pack := range packers {
		if encoding == "zstd" {
			encoding = " zstd" // a second key for zstd in the map
		}
		bomb := pack(strings.Repeat("\x00", 8<<20))
		bombs[encoding] = bomb[:min(len(bomb), 256<<10)]
	}
	bombs["gzip"] = gigabyte(t)[:256<<10]
	for encoding, bomb := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := readUsage(route.Chat, false, encoding, string(bomb))
		runtime.ReadMemStats(&after)
		if got != "undecodable" {
			t.Errorf("%q: got %s", encoding, got)
		}
		if most := uint64(24 << 20); after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%q: %d KiB allocated", encoding, (after.TotalAlloc-before.TotalAlloc)>>10)
		}
		t.Logf("%q: %d KiB for %d bytes", encoding, (after.TotalAlloc-before.TotalAlloc)>>10, len(bomb))
	}
}

// gigabyte returns 1 GiB of zeros as 1 MiB of gzip.
func gigabyte(t *testing.T) []byte {
	t.Helper()
	var piece bytes.Buffer
	w, err := flate.NewWriter(&piece, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	header := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	return append(header, bytes.Repeat(piece.Bytes(), 1<<10)...)
}
