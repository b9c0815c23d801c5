package folder

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/pdf"
)

const (
	// checkEvery is how often the memory of the process is checked.
	checkEvery = time.Millisecond
	// headroom is the distance between the runtime's soft limit and the memory of the process.
	headroom = 16 << 20
)

// ServeChild reads one file from stdin and writes its documents to stdout, for a ChildReader. It
// exits the process at once if it needs more memory than it was given, or if stdin is closed.
func ServeChild(stdin io.Reader, stdout io.Writer) error {
	q, raw, err := acceptChild(stdin)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(0) // the parent is gone
	}()
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))) // pdfium's code does not yield its processor
	debug.SetMemoryLimit(max(headroom, q.Memory-headroom))
	dieFirst()
	go watchChild(q.Memory)
	reader := pdf.New(q.Code)
	reader.Memory = q.Memory
	documents, err := Extract(context.Background(), q.Format, q.Name, raw, reader)
	return writeChild(stdout, documents, err, q.Memory)
}

// acceptChild reads a request and the bytes of the file.
func acceptChild(r io.Reader) (q childRequest, raw []byte, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return q, nil, err
	}
	head := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(r, head); err != nil {
		return q, nil, err
	}
	if err := json.Unmarshal(head, &q); err != nil {
		return q, nil, err
	}
	raw = make([]byte, q.Length)
	_, err = io.ReadFull(r, raw)
	return q, raw, err
}

// watchChild exits the process if it uses more memory than allowed.
func watchChild(memory int64) {
	for range time.Tick(checkEvery) {
		if used() > memory {
			os.Exit(exitMemory)
		}
	}
}

// writeChild writes documents, and what was not read of the file.
func writeChild(w io.Writer, documents []extract.Document, failed error, memory int64) error {
	if errors.Is(failed, pdf.ErrMemory) {
		documents, failed = nil, errMemory(memory)
	}
	out := bufio.NewWriter(w)
	enc := gob.NewEncoder(out)
	for _, d := range documents {
		text := d.Text
		d.Text = ""
		if err := enc.Encode(childAnswer{Document: d, Length: len(text)}); err != nil {
			return err
		}
		if _, err := out.WriteString(text); err != nil {
			return err
		}
	}
	if err := enc.Encode(childAnswer{Last: true, Failure: FailureOf(failed)}); err != nil {
		return err
	}
	return out.Flush()
}
