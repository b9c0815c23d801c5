package answer_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
)

// packed returns text encoded with each Content-Encoding.
func packed(text string) map[string][]byte {
	gzip := fasthttp.AppendGzipBytes(nil, []byte(text))
	return map[string][]byte{
		"gzip":    gzip,
		" X-Gzip": gzip,
		"deflate": fasthttp.AppendDeflateBytes(nil, []byte(text)),
		"BR ":     fasthttp.AppendBrotliBytes(nil, []byte(text)),
		"zstd":    fasthttp.AppendZstdBytes(nil, []byte(text)),
	}
}

func TestText(t *testing.T) {
	const text = "a text, a text, a text, and ünïcödé"
	for name, body := range packed(text) {
		if got, err := answer.DecodeText(name, body, len(text), nil); string(got) != text || err != nil || !answer.KnownCoding(name) || answer.PlainCoding(name) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if _, err := answer.DecodeText(name, body, len(text)-1, nil); !errors.Is(err, answer.ErrDecodedTooLong) {
			t.Errorf("%q beyond the limit: %v", name, err)
		}
		if got, err := answer.DecodeText(name, body[:len(body)-9], len(text), nil); err == nil {
			t.Errorf("%q cut: %q", name, got)
		}
		if _, err := answer.DecodeText(name, []byte("no such thing"), 100, nil); err == nil {
			t.Errorf("%q: nonsense was read", name)
		}
	}
	for _, name := range []string{"", "identity", "compress", "gzip, br"} {
		if _, err := answer.DecodeText(name, []byte(text), 100, nil); !errors.Is(err, answer.ErrUnknownCoding) || answer.KnownCoding(name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if !answer.PlainCoding("") || !answer.PlainCoding(" Identity") || answer.PlainCoding("identity, gzip") {
		t.Error("what is plain")
	}
}

// A decompression bomb costs at most a few times the limit plus what its decoder needs.
func TestBombIsBounded(t *testing.T) {
	const limit, decoders = 1 << 20, 24 << 20
	size := 64 << 20
	if testing.Short() {
		size /= 8
	}
	bombs := packed(strings.Repeat("\x00", size))
	bombs["zstd "] = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x03, 0x00, 0x10, 'x'} // one block, and 512 MiB of window
	for name, bomb := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := answer.DecodeText(name, bomb, limit, nil)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%q was read", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4*limit+decoders {
			t.Errorf("%q: %d KiB allocated", name, got>>10)
		}
	}
}

// DecodeText calls take before it allocates, and allocates no more than it has taken.
func TestRoom(t *testing.T) {
	text := strings.Repeat("a text, ", 40_000)
	for name, body := range packed(text) {
		asked := 0
		got, err := answer.DecodeText(name, body, len(text), func(n int) bool { asked += n; return true })
		if err != nil || string(got) != text || cap(got) > asked || asked > len(text) {
			t.Errorf("%q: %d bytes in %d, asked for %d, %v", name, len(got), cap(got), asked, err)
		}
		left := len(text) / 2
		if got, err := answer.DecodeText(name, body, len(text), func(n int) bool { left -= n; return left >= 0 }); !errors.Is(err, answer.ErrNoDecodeRoom) {
			t.Errorf("%q without room: %d bytes, %v", name, len(got), err)
		}
	}
}
