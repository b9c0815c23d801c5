package proxy

import (
	"bytes"
	"io"
)

// maxIdle is the largest buffer, in bytes, that is kept after Flush.
const maxIdle = 4 << 10

// An answerOut buffers the client's side of a stream until Flush.
type answerOut struct {
	bytes.Buffer
	Notes  bytes.Buffer // comments, written before the rest of the buffer
	To     io.Writer
	Broken error // set when nothing more may be written: a write failed, or an error was sent
}

// Flush writes the buffered notes and data.
func (o *answerOut) Flush() error {
	if o.Notes.Len() > 0 {
		o.Notes.Write(o.Bytes())
		o.Buffer, o.Notes = o.Notes, bytes.Buffer{}
	}
	if o.Len() == 0 {
		return nil
	}
	_, err := o.To.Write(o.Bytes())
	if err != nil {
		o.Broken = err
	}
	if o.Reset(); o.Cap() > maxIdle {
		o.Buffer = bytes.Buffer{}
	}
	return err
}
