package http1_test

import (
	"io"
	"math"
	"testing"

	"sidenote/proxy/transport/http1"
)

// Whatever length is announced, memory grows in steps with what has arrived.
func TestAnnouncedLengths(t *testing.T) {
	for _, announced := range []int{-1, 100, 300_000, 1 << 50, math.MaxInt - 1, math.MaxInt} {
		size := 100_000
		if announced >= 0 {
			size = min(size, announced)
		}
		asked := 0
		r := readerFunc(func(p []byte) (int, error) {
			if asked++; size == 0 {
				return 0, io.EOF
			}
			n := copy(p, make([]byte, min(size, 10_000)))
			size -= n
			return n, nil
		})
		want := size
		n, room := http1.ReadIn(r, 1<<20, announced)
		if n != want || room > 192<<10 || asked > 30 {
			t.Errorf("%d announced: %d of %d read into %d bytes in %d pieces", announced, n, want, room, asked)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
