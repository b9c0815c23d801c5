package http1

import "strconv"

// A buffer for a piece of a body has room for framing around the data.
const (
	LastChunk = "0\r\n\r\n"             // ends a body without a trailer
	FrameRoom = len("7fff\r\n")         // before the data: the size line of a chunk
	frameEnd  = len("\r\n" + LastChunk) // after the data
)

// DataOf returns the part of a buffer that is for data.
func DataOf(piece []byte) []byte { return piece[FrameRoom : len(piece)-frameEnd] }

// ChunkIn writes the framing of a chunk around the first n bytes of data in piece, and returns the
// chunk.
func ChunkIn(piece []byte, n int) []byte {
	var size [8]byte
	line := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
	start := FrameRoom - len(line)
	copy(piece[start:], line)
	copy(piece[FrameRoom+n:], "\r\n")
	return piece[start : FrameRoom+n+len("\r\n")]
}
