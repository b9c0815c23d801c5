package answers

import (
	"bytes"
	"io"
)

// maxIdle is the largest buffer that is kept between two pieces, in bytes.
const maxIdle = 4 << 10

// An Out gathers what a client gets of a stream until it is flushed.
type Out struct {
	bytes.Buffer
	Notes  bytes.Buffer // comments, which go out in front of that
	To     io.Writer
	Broken error // nothing more is written: the client takes nothing, or was told an error
}

// Flush writes what was gathered.
func (o *Out) Flush() error {
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
