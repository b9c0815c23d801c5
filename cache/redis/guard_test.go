package redis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const guardBytes = 1000 // the largest string in these tests

// A tape is a connection that plays chunks, one per Read.
type tape struct {
	net.Conn
	chunks [][]byte
}

func (c *tape) Read(p []byte) (int, error) {
	if len(c.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.chunks[0])
	if c.chunks[0] = c.chunks[0][n:]; len(c.chunks[0]) == 0 {
		c.chunks = c.chunks[1:]
	}
	return n, nil
}

// pass plays chunks through a guard and returns what it let through.
func pass(chunks ...[]byte) (*guard, []byte, error) {
	g := guarded(&tape{chunks: chunks}, guardBytes).(*guard)
	got, err := io.ReadAll(g)
	return g, got, err
}

// between reports whether the guard is between two replies.
func (g *guard) between() bool { return g.skip == 0 && len(g.arrays) == 0 && len(g.line) == 0 }

var replies = []string{
	"+OK\r\n", "+\r\n", "-ERR no\r\n", ":-12\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n", "$5\r\nhello\r\n",
	"$10\r\n\r\n$9999\r\n*\r\n", "$4\r\n\x00\xff\r\n\r\n",
	"*2\r\n$5\r\nhello\r\n*3\r\n:1\r\n$-1\r\n*0\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+deep\r\n",
	"$1000\r\n" + strings.Repeat("\n", 1000) + "\r\n", "*7\r\n" + strings.Repeat("*65536\r\n"+strings.Repeat(":1\r\n", 65536), 7),
	"-ERR " + strings.Repeat("x", maxLine-10) + "\r\n",
}

func TestGuardPassesReplies(t *testing.T) {
	for _, reply := range replies {
		name, all := fmt.Sprintf("%.30q", reply), []byte(reply+reply)
		at := make([]int, 0, len(all))
		if len(all) < 5000 {
			for i := range all {
				at = append(at, i)
			}
		} else {
			at = append(at, 32<<10, len(reply)+1)
		}
		for _, i := range at {
			if g, got, err := pass(all[:i:i], all[i:]); err != nil || !bytes.Equal(got, all) || !g.between() {
				t.Errorf("%s cut at %d: got %d of %d bytes, %v", name, i, len(got), len(all), err)
			}
		}
		if g, got, err := pass(slices.Collect(slices.Chunk(all, 1+len(all)/10000))...); err != nil || !bytes.Equal(got, all) || !g.between() {
			t.Errorf("%s in little pieces: got %d of %d bytes, %v", name, len(got), len(all), err)
		}
	}
	if _, got, err := pass([]byte(strings.Join(replies, ""))); err != nil || string(got) != strings.Join(replies, "") {
		t.Errorf("all at once: %v", err)
	}
}

var lies = map[string]string{
	"string of 10 GB":        "$10000000000\r\n",
	"one byte too long":      "$1001\r\n",
	"array of 10 GB":         "*10000000000\r\n",
	"array too long":         "*65537\r\n",
	"map":                    "%1\r\n+a\r\n+b\r\n",
	"push":                   ">1\r\n+a\r\n",
	"nil of RESP3":           "_\r\n",
	"more than fits 64 bits": "$99999999999999999999\r\n",
	"negative string":        "$-2\r\n",
	"negative array":         "*-2\r\n",
	"no number":              "$five\r\n",
	"nothing":                "$\r\n",
	"number and more":        "$5 \r\n",
	"streamed string":        "$?\r\n",
	"streamed array":         "*?\r\n",
	"attribute":              "|1\r\n+a\r\n+b\r\n+OK\r\n",
	"arrays without end":     strings.Repeat("*1\r\n", maxDepth+1),
	"arrays of arrays":       "*9\r\n" + strings.Repeat("*65536\r\n"+strings.Repeat(":1\r\n", 65536), 9),
	"endless line":           "+" + strings.Repeat("x", maxLine+1),
	"endless number":         "$" + strings.Repeat("0", maxLine+1),
	"empty line":             "\r\n",
	"no carriage return":     "+OK\n",
	"HTTP":                   "HTTP/1.1 400 Bad Request\r\n\r\n",
	"SSH":                    "SSH-2.0-OpenSSH_9.2\r\n",
	"TLS":                    "\x15\x03\x01\x00\x02\x02\x0a",
	"second reply":           "$2\r\nOK\r\nOK\r\n",
	"in an array":            "*2\r\n:1\r\n$1001\r\n",
}

func TestGuardCutsAtLies(t *testing.T) {
	for name, lie := range lies {
		for _, before := range []string{"", "+OK\r\n", "$3\r\nabc\r\n"} {
			all := []byte(before + lie)
			for _, size := range []int{1, 2, 3, 7, len(all)} {
				if len(all)/size > 10000 {
					continue
				}
				g, got, err := pass(slices.Collect(slices.Chunk(all, size))...)
				if !errors.Is(err, errNoRedis) || !bytes.HasPrefix(all, got) {
					t.Errorf("%s after %q in chunks of %d: got %d bytes, %v", name, before, size, len(got), err)
				}
				// The library continues after some errors.
				if n, err := g.Read(make([]byte, 100)); n != 0 || !errors.Is(err, errNoRedis) {
					t.Errorf("%s: then got %d bytes, %v", name, n, err)
				}
			}
		}
	}
}

// The guard buffers an endless line only up to the limit.
func TestGuardKeepsLittle(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<10)
	g := &guard{maxBytes: 1 << 30}
	if err := g.check([]byte("$1000000000\r\n")); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100_000 {
		if err := g.check(chunk); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for a string that passes", n)
	}
}

// The methods of a connection that the library uses must survive the wrapping.
func TestGuardShowsTheSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := guarded(conn, 1).(syscall.Conn); !ok {
		t.Error("a guarded TCP connection hides its socket")
	}
	if guarded(conn, 1).RemoteAddr() != conn.RemoteAddr() {
		t.Error("another address")
	}
	if _, ok := guarded(&tape{}, 1).(syscall.Conn); ok {
		t.Error("a guarded connection without a socket shows one")
	}
}

// FuzzGuard feeds any bytes in any pieces, and replies made of them.
func FuzzGuard(f *testing.F) {
	for _, reply := range replies {
		f.Add([]byte(reply[:min(len(reply), 2000)]), uint64(len(reply)))
	}
	for _, lie := range lies {
		f.Add([]byte(lie[:min(len(lie), 2000)]), uint64(len(lie)))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, uint64(len(data))))
		_, _, whole := pass(data)
		g, got, err := pass(pieces(r, data)...)
		if (err == nil) != (whole == nil) {
			t.Fatalf("at once %v, in pieces %v", whole, err)
		}
		if err == nil && !bytes.Equal(got, data) || !bytes.HasPrefix(data, got) {
			t.Fatalf("got %q", got)
		}
		if err != nil && !errors.Is(err, errNoRedis) {
			t.Fatal(err)
		}
		if cap(g.line) > 2*maxLine || cap(g.arrays) > 2*maxDepth || g.skip > guardBytes+2 {
			t.Fatalf("keeps a line of %d, %d arrays, skips %d", cap(g.line), cap(g.arrays), g.skip)
		}
		if text, array := announces(got); text > guardBytes || array > maxItems {
			t.Fatalf("a string of %d and an array of %d bytes passed", text, array)
		}
		valid := append(reply(r, 0), reply(r, 0)...)
		if g, got, err := pass(pieces(r, valid)...); err != nil || !bytes.Equal(got, valid) || !g.between() {
			t.Fatalf("%q: got %q, %v", valid, got, err)
		}
	})
}

// pieces cuts data at random.
func pieces(r *rand.Rand, data []byte) (all [][]byte) {
	most := 1 + r.IntN(len(data)+1)
	for len(data) > 0 {
		n := min(len(data), 1+r.IntN(most))
		all, data = append(all, data[:n:n]), data[n:]
	}
	return all
}

// announces returns the largest string and array that lines of data announce.
func announces(data []byte) (text, array int64) {
	for {
		line, rest, ok := bytes.Cut(data, []byte("\r\n"))
		if !ok || len(line) == 0 {
			return text, array
		}
		data = rest
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		switch {
		case err != nil:
		case line[0] == '$':
			text = max(text, n)
			data = data[min(max(0, n+2), int64(len(data))):]
		case line[0] == '*':
			array = max(array, n)
		}
	}
}

// reply makes up a reply within the limits.
func reply(r *rand.Rand, depth int) []byte {
	kind := r.IntN(8)
	if depth == maxDepth {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return []byte("+OK\r\n")
	case 1:
		return fmt.Appendf(nil, ":%d\r\n", r.Int64())
	case 2:
		return []byte("$-1\r\n")
	case 3, 4:
		text := make([]byte, r.IntN(guardBytes+1))
		for i := range text {
			text[i] = "\r\n$*+-:0123456789"[r.IntN(17)]
		}
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
	default:
		n := r.IntN(4)
		b := fmt.Appendf(nil, "*%d\r\n", n)
		for range n {
			b = append(b, reply(r, depth+1)...)
		}
		return b
	}
}
