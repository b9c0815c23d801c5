package transport

import (
	"bytes"
	"errors"
	"unsafe"
)

// errBareLine ends a head with a bare line feed in it. fasthttp would wait for the end
// of such a head, which may be there already.
var errBareLine = errors.New("bare line feed")

// A headRead is what of a head has arrived. It stands in the buffer that fasthttp reads
// heads into, all of which is seen when a read begins at its start.
type headRead struct {
	buffer []byte
	first  bool // the connection's first byte was read apart, and stands in the buffer before the next read
	bare   bool // the first line ends in a bare line feed, which fasthttp does not show
}

// before returns what stands in a buffer of so many bytes before p, its rest; nil where
// that is nothing, or not known.
func (h *headRead) before(p []byte, size int) []byte {
	switch {
	case cap(p) == size:
		h.buffer = p
	case h.first && len(p) > 0 && cap(p) == size-1:
		h.buffer = unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&p[0]), -1)), size)
	}
	h.first = h.buffer == nil && len(p) == 1
	if at := size - cap(p); at > 0 && at < len(h.buffer) && len(p) > 0 && &h.buffer[at] == &p[0] {
		return h.buffer[:at]
	}
	return nil
}

// bareLine reports whether a line feed alone ends one of a head's first lines. Empty
// lines before it are none of its.
func bareLine(head []byte, lines int) bool {
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
