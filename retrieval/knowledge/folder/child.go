package folder

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// ChildArgument is the only argument of a program that is to call Serve.
const ChildArgument = "extract-document"

// inner is set in the environment of the process that reads, which starts no other.
const inner = "SIDENOTE_EXTRACT_DOCUMENT"

// exitMemory is the exit code of a process that needed more memory than it was given.
const exitMemory = 86

// perDocument is what a document takes beside its strings, in bytes.
const perDocument = 1 << 10

// errMemory says that a file could not be read in the memory that is free.
func errMemory(bytes int64) error {
	return &Failure{Kind: SkipMemory, Reason: fmt.Sprintf("reading it takes more than the %d MB of memory that are free", bytes>>20)}
}

// A ChildReader starts processes that read.
type ChildReader struct {
	Program string // the executable, which calls Serve
	Code    string // folder for the machine code that reads PDF
}

// NewChildReader returns a Reader that starts this program again; nil where that is not possible.
func NewChildReader(code string) *ChildReader {
	program, err := os.Executable()
	if err != nil || os.Getenv(inner) != "" {
		return nil
	}
	return &ChildReader{Program: program, Code: code}
}

// A childRequest precedes the bytes of a file.
type childRequest struct {
	Format extract.Format
	Name   string
	Code   string
	Memory int64 // of the process, in bytes
	Length int
}

// An childAnswer precedes the text of a document. The last one has no document.
type childAnswer struct {
	Last     bool
	Failure  *Failure // of the last: what of the file was not read
	Document extract.Document
	Length   int // of its text
}

// Extract is Extract in a process that may take so many bytes of memory, while its
// caller keeps no more than most bytes of documents.
func (r *ChildReader) Extract(ctx context.Context, f extract.Format, name string, raw []byte, memory, most int64) (documents []extract.Document, err error) {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(life, r.Program, ChildArgument)
	cmd.Args[0] = "sidenote"
	cmd.Env = append(environment(), inner+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a reader: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a reader: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a reader: %w", err)
	}
	go func() { // until the process has ended; it ends when its input does
		_ = sendChild(in, childRequest{Format: f, Name: name, Code: r.Code, Memory: memory, Length: len(raw)}, raw)
		<-life.Done()
		_ = in.Close()
	}()
	documents, failure, err := receiveChild(out, most)
	cancel()
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && failure != nil:
		return documents, failure
	case err == nil:
		return documents, nil
	case errors.Is(err, errTooMuch):
		return nil, errMemory(memory + most)
	}
	// Where it was ended by a signal, the system needed the memory: it had ended before it was
	// cancelled, as its output had.
	if exit := (*exec.ExitError)(nil); errors.As(ended, &exit) && (exit.ExitCode() == exitMemory || !exit.Exited()) {
		return nil, errMemory(memory)
	}
	return nil, fmt.Errorf("its reader ended: %w", errors.Join(ended, err))
}

// environment is what a program needs to start at all.
func environment() (list []string) {
	for _, name := range []string{"SYSTEMROOT", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// sendChild writes a request and the bytes of the file.
func sendChild(w io.Writer, q childRequest, raw []byte) error {
	head, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)); err != nil { //nolint:gosec // a name is short
		return err
	}
	_, err = w.Write(raw)
	return err
}

var errTooMuch = errors.New("too much text")

// receiveChild reads documents of at most so many bytes, and what of the file was not read.
func receiveChild(r io.Reader, most int64) (documents []extract.Document, failure *Failure, err error) {
	in := bufio.NewReader(r)
	dec := gob.NewDecoder(in) // reads no further than it has to, since in is an io.ByteReader
	for used := int64(0); ; {
		var a childAnswer
		if err := dec.Decode(&a); err != nil {
			return nil, nil, err
		}
		if a.Last {
			return documents, a.Failure, nil
		}
		if used += int64(a.Length) + perDocument + attributesSize(a.Document.Attributes); used > most {
			return nil, nil, errTooMuch
		}
		var text strings.Builder
		text.Grow(a.Length)
		if _, err := io.CopyN(&text, in, int64(a.Length)); err != nil {
			return nil, nil, err
		}
		a.Document.Text = text.String()
		documents = append(documents, a.Document)
	}
}

// attributesSize returns about how many bytes attributes take.
func attributesSize(attributes map[string]any) (bytes int64) {
	for name, value := range attributes {
		bytes += int64(len(name)) + 64
		switch v := value.(type) {
		case string:
			bytes += int64(len(v))
		case []string:
			for _, s := range v {
				bytes += int64(len(s)) + 16
			}
		}
	}
	return bytes
}
