package child

import (
	"bytes"
	"io"
	"runtime/debug"
	"time"

	"sidenote/retrieval/knowledge/extract"
)

// Main runs a child: it reads a file of the format args[0] from stdin, writes the frame
// with its text to stdout, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	if err := limit(); err != nil || len(args) != 1 {
		return exitUsage
	}
	debug.SetMemoryLimit(maxMemory / 3) // so that garbage is collected before the limit is reached
	stop := time.AfterFunc(maxWall, func() { panic("reading takes too long") })
	defer stop.Stop()
	raw, err := io.ReadAll(io.LimitReader(stdin, extract.MaxText))
	if err != nil {
		return exitUsage
	}
	d, err := read(args[0], raw)
	if writeFrame(stdout, d, err) != nil {
		return exitUsage
	}
	return 0
}

// exitUsage is the exit code of a child that was started wrongly.
const exitUsage = 70

// read reads a file. A panic of the reader means that the file is broken.
func read(format string, raw []byte) (d extract.Document, err error) {
	defer func() {
		if recover() != nil {
			d, err = extract.Document{}, errGaveUp
		}
	}()
	if format != extract.PDF.String() {
		return extract.Document{}, errGaveUp
	}
	return readPDF(bytes.NewReader(raw))
}
