package wire

import (
	"bytes"
	"errors"
	"unsafe"
)

// ErrBareLine is the error of reading a head in which a line ends in a line feed alone.
// fasthttp would wait for more of such a head, though it may be complete.
var ErrBareLine = errors.New("bare line feed")

// A HeadRead finds the part of a head that has arrived. That part stands in fasthttp's
// read buffer, which we get to see as a whole when fasthttp reads into its start.
type HeadRead struct {
	Buffer []byte
	first  bool // the connection's first byte was read by itself and stands in the buffer before the next read
	Bare   bool // the first line ends in a bare line feed, which fasthttp does not tell us
}

// Before returns what stands before p in fasthttp's buffer, which has size bytes and of
// which p is the rest. It returns nil if that is nothing or not known.
func (h *HeadRead) Before(p []byte, size int) []byte {
	switch {
	case cap(p) == size:
		h.Buffer = p
	case h.first && len(p) > 0 && cap(p) == size-1:
		h.Buffer = unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&p[0]), -1)), size)
	}
	h.first = h.Buffer == nil && len(p) == 1
	if at := size - cap(p); at > 0 && at < len(h.Buffer) && len(p) > 0 && &h.Buffer[at] == &p[0] {
		return h.Buffer[:at]
	}
	return nil
}

// BareLine reports whether one of the first lines of a head ends in a line feed alone.
// Empty lines before the head do not count.
func BareLine(head []byte, lines int) bool {
	for len(head) > 0 && (head[0] == '\r' || head[0] == '\n') {
		head = head[1:]
	}
	for ; lines > 0; lines-- {
		i := bytes.IndexByte(head, '\n')
		if i < 0 {
			return false
		}
		if i == 0 || head[i-1] != '\r' {
			return true
		}
		head = head[i+1:]
	}
	return false
}
