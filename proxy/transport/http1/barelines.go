package http1

import (
	"bytes"
	"errors"
)

// ErrBareLine is the error of reading a head in which a line ends in a line feed alone.
// fasthttp would wait for more of such a head, though it may be complete.
var ErrBareLine = errors.New("bare line feed")

// A HeadScanner looks for line feeds without a carriage return in the head of a request
// while it arrives. The zero HeadScanner looks for nothing.
type HeadScanner struct {
	Bare bool // there is one

	within bool // a head has begun and has not ended
	lines  bool // one of its lines has begun; empty lines before the head do not count
	line   bool // the present line has begun
	cr     bool // the last byte was a carriage return
}

// Begin says that the next byte is the first one of a head.
func (s *HeadScanner) Begin() { *s = HeadScanner{within: true} }

// Whole tells whether a head has ended, and none has begun since.
func (s *HeadScanner) Whole() bool { return s.lines && !s.within && !s.Bare }

// Scan goes on with the bytes that have arrived. It leaves the lines after the first one
// alone if the end of the head is among them: who reads the head sees all of these.
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

// goOn takes a part of a line, without its line feed.
func (s *HeadScanner) goOn(part []byte) {
	if len(part) == 0 {
		return
	}
	s.line = s.line || s.cr || len(part) > 1 || part[0] != '\r'
	s.lines = s.lines || s.line
	s.cr = part[len(part)-1] == '\r'
}
