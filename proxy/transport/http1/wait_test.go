package http1_test

import (
	"io"
	"slices"
	"testing"

	"sidenote/proxy/transport/http1"
)

// packets is a connection on which an answer arrives in these pieces.
type packets struct {
	left  []string
	asked int
}

func (p *packets) Asked() int { return p.asked }

func (p *packets) Read(b []byte) (int, error) {
	p.asked++
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

// Between two pieces of a stream, Wait waits and not Read: Read needs a buffer, and an idle stream
// must not hold one. However chunks and their ends are split, each piece is relayed as it arrives.
func TestWaitWaits(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, arriving := range map[string][]string{
		"whole chunks":    {head, "2\r\nab\r\n", "3\r\ncde\r\n", "0\r\n\r\n"},
		"with the head":   {head + "2\r\nab\r\n", "3\r\ncde\r\n0\r\n\r\n"},
		"end apart":       {head, "2\r\nab", "\r\n", "3\r\ncde", "\r\n", "0\r\n", "\r\n"},
		"end cut":         {head, "2\r\nab\r", "\n3\r\ncde\r", "\n0\r\n\r", "\n"},
		"end before size": {head, "2\r\n", "ab", "\r\n3\r\n", "cde", "\r\n0\r\nT: 1\r\n\r\n"},
		"size cut":        {head, "2", "\r", "\nab\r\n3", "\r", "\ncde\r\n0", "\r\n\r\n"},
	} {
		pieces, late, err := http1.PassAnswer(&packets{left: arriving})
		if err != nil || !slices.Equal(pieces, []string{"ab", "cde"}) || late > 0 {
			t.Errorf("%s: %q, read %d times after the wait, %v", name, pieces, late, err)
		}
	}
	for _, cut := range []string{"2\r\nab", "2\r\nab\r\n", "2\r\nab\r\n3"} {
		if _, _, err := http1.PassAnswer(&packets{left: []string{head, cut}}); err == nil {
			t.Errorf("%q: a cut answer looks whole", cut)
		}
	}
}
