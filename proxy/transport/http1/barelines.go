package http1

import (
	"bytes"
	"errors"
)

// ErrBareLine is the error for a head with a line that ends in a line feed alone. fasthttp would
// wait for more of such a head, even if it is complete.
var ErrBareLine = errors.New("bare line feed")

// A HeadScanner looks for line feeds without a carriage return in a request's head while it
// arrives. The zero HeadScanner ignores everything until Begin.
type HeadScanner struct {
	Bare bool // a bare line feed was found

	within bool // a head has begun and not ended
	lines  bool // one of its lines has begun; empty lines before the head do not count
	line   bool // the current line has begun
	cr     bool // the last byte was a carriage return
}

// Begin announces that the next byte is the first one of a head.
func (s *HeadScanner) Begin() { *s = HeadScanner{within: true} }

// Whole reports whether the head is complete and no other has begun.
func (s *HeadScanner) Whole() bool { return s.lines && !s.within && !s.Bare }

// Scan scans the bytes that have arrived. If they include the end of the head, it skips the lines
// after the first: the reader of the head checks all of those.
func (s *HeadScanner) Scan(p []byte) {
	for first := true; s.within; {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.goOn(p)
			return
		}
		s.goOn(p[:end])
		switch {
		case !s.lines:
		case !s.cr:
			s.Bare, s.within = true, false
		case !s.line, first && bytes.Contains(p[max(end-1, 0):], []byte("\r\n\r\n")):
			s.within = false
		default:
			first = false
		}
		s.line, s.cr, p = false, false, p[end+1:]
	}
}

// goOn scans a part of a line, without its line feed.
func (s *HeadScanner) goOn(part []byte) {
	if len(part) == 0 {
		return
	}
	s.line = s.line || s.cr || len(part) > 1 || part[0] != '\r'
	s.lines = s.lines || s.line
	s.cr = part[len(part)-1] == '\r'
}
