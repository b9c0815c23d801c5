package tcp

import (
	"io"
	"sync"
)

// calls holds the state of the read and the write in progress.
type calls struct {
	reading struct {
		sync.Mutex
		into []byte
		n    int
		err  error
		step func(fd uintptr) (done bool) // readStep
	}
	writing struct {
		sync.Mutex
		one  [1][]byte // backing array of left for a single piece
		left [][]byte
		n    int
		err  error
		step func(fd uintptr) (done bool) // writeStep
	}
}

func (t *Conn) prepare() { t.reading.step, t.writing.step = t.readStep, t.writeStep }

// Read implements net.Conn.
func (t *Conn) Read(p []byte) (int, error) {
	c := &t.reading
	c.Lock()
	defer c.Unlock()
	c.into, c.n, c.err = p, 0, nil
	err := t.Raw.Read(c.step)
	c.into = nil
	if err == nil {
		err = c.err
	}
	return c.n, err
}

func (t *Conn) readStep(fd uintptr) (done bool) {
	c := &t.reading
	n, wouldBlock, err := ReadNow(fd, c.into)
	switch {
	case wouldBlock:
		return false
	case err != nil:
		c.err = err
	case n == 0 && len(c.into) > 0:
		c.err = io.EOF
	}
	c.n = n
	return true
}

// Write implements net.Conn.
func (t *Conn) Write(p []byte) (int, error) {
	c := &t.writing
	c.Lock()
	defer c.Unlock()
	c.one[0] = p
	return t.write(c.one[:])
}

// WriteAll writes pieces in order and clears the list.
func (t *Conn) WriteAll(pieces [][]byte) (int, error) {
	c := &t.writing
	c.Lock()
	defer c.Unlock()
	return t.write(pieces)
}

func (t *Conn) write(pieces [][]byte) (int, error) {
	c := &t.writing
	c.left, c.n, c.err = pieces, 0, nil
	err := t.Raw.Write(c.step)
	clear(c.left)
	c.left = nil
	if err == nil {
		err = c.err
	}
	return c.n, err
}

func (t *Conn) writeStep(fd uintptr) (done bool) {
	c := &t.writing
	for len(c.left) > 0 {
		n, wouldBlock, err := writeNow(fd, c.left)
		if wouldBlock {
			return false
		}
		if c.err = err; err != nil {
			return true
		}
		c.n += n
		c.left = Skip(c.left, n)
	}
	return true
}
