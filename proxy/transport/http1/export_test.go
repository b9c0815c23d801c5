package http1

import (
	"bufio"
	"errors"
	"io"
)

// FirstField returns the first line of block as parsed by NextField.
func FirstField(block []byte) (name, value string, next int, ok bool) {
	f, ok := NextField(block)
	if !ok {
		return "", "", 0, false
	}
	return string(f.Name(block)), string(f.Value(block)), f.Next, true
}

// PlainField is FirstField without its optimizations: it checks each byte on its own.
func PlainField(block []byte) (name, value string, next int, ok bool) {
	line, rest, whole := CutLine(block)
	n, v, ok := CutField(line)
	if !whole || !ok || !ValidToken(n) {
		return "", "", 0, false
	}
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", "", 0, false
		}
	}
	return string(n), string(v), len(block) - len(rest), true
}

// PassesAny reports whether a header of that name may be relayed at all, and whether it is one of
// Sidenote's.
func PassesAny(name string) (passes, own bool) {
	kind := KindOf([]byte(name))
	return !kind.HopByHop(), kind == OwnName
}

// ReadAnswer reads raw as an upstream's answer to a GET.
func ReadAnswer(raw io.Reader) (status int, body []byte, err error) {
	br := bufio.NewReaderSize(raw, 4096)
	var h AnswerHead
	if _, err := h.Read(br, nil, false, nil); err != nil {
		return 0, nil, err
	}
	b := NewBody(br, &h)
	body, err = io.ReadAll(&b)
	return h.Status, body, err
}

// PassAnswer reads raw's body like a relayed stream, with a Wait before each piece, and reports for
// each piece whether raw had to be read after the Wait.
func PassAnswer(raw interface {
	io.Reader
	Asked() int
}) (pieces []string, late int, err error) {
	br := bufio.NewReaderSize(raw, 4096)
	var h AnswerHead
	if _, err := h.Read(br, nil, false, nil); err != nil {
		return nil, 0, err
	}
	b := NewBody(br, &h)
	for piece := make([]byte, 32<<10); !b.Ended(); {
		if err := b.Wait(); err != nil {
			return pieces, late, err
		}
		asked := raw.Asked()
		n, err := b.Read(piece)
		if n > 0 {
			pieces = append(pieces, string(piece[:n]))
			late += raw.Asked() - asked
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return pieces, late, err
		}
	}
	return pieces, late, nil
}

// ReadIn reads r to its end, or beyond limit, as a body of that many announced bytes, and returns
// the memory it used.
func ReadIn(r io.Reader, limit, announced int) (n, room int) {
	in := BodyReader{Stream: r, Limit: limit, Announced: announced}
	b, _ := in.Read(nil)
	return len(b), cap(b)
}
