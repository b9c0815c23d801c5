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
	To     io.Writer
	Broken error // nothing more is written: the client takes nothing, or was told an error
}

// Flush writes what was gathered.
func (o *Out) Flush() error {
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
