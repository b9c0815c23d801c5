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

// ChildArgument is the only argument of a child process, which must call ServeChild.
const ChildArgument = "extract-document"

// inner is an environment variable that is set in child processes, which start no others.
const inner = "SIDENOTE_EXTRACT_DOCUMENT"

// exitMemory is the exit code of a child process that exceeded its memory.
const exitMemory = 86

// perDocument is the memory of a document apart from its strings, in bytes.
const perDocument = 1 << 10

// errMemory returns the failure of a file that could not be read in the free memory.
func errMemory(bytes int64) error {
	return &Failure{Kind: SkipMemory, Reason: fmt.Sprintf("reading it takes more than the %d MB of memory that are free", bytes>>20)}
}

// A ChildReader extracts documents in child processes.
type ChildReader struct {
	Program string // an executable that calls ServeChild
	Code    string // folder for the machine code of the PDF reader
}

// NewChildReader returns a ChildReader that runs this executable; nil if that is not possible.
func NewChildReader(code string) *ChildReader {
	program, err := os.Executable()
	if err != nil || os.Getenv(inner) != "" {
		return nil
	}
	return &ChildReader{Program: program, Code: code}
}

// A childRequest is sent before the bytes of a file.
type childRequest struct {
	Format extract.Format
	Name   string
	Code   string
	Memory int64 // of the process, in bytes
	Length int
}

// A childAnswer is sent before the text of a document. The last one has no document.
type childAnswer struct {
	Last     bool
	Failure  *Failure // in the last one: what was not read of the file
	Document extract.Document
	Length   int // of the text
}

// Extract is like the function Extract, but runs in a child process that may use the given memory,
// in bytes. The documents take at most most bytes in this process.
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
	go func() { // until the process has ended, which it does when its input is closed
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
	// If it was killed by a signal, the system needed the memory: it ended before it was
	// cancelled, because its output had ended.
	if exit := (*exec.ExitError)(nil); errors.As(ended, &exit) && (exit.ExitCode() == exitMemory || !exit.Exited()) {
		return nil, errMemory(memory)
	}
	return nil, fmt.Errorf("the process that extracts its text failed: %w", errors.Join(ended, err))
}

// environment returns the variables that a program needs to start.
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

// receiveChild reads documents of at most the given bytes, and what was not read of the file.
func receiveChild(r io.Reader, most int64) (documents []extract.Document, failure *Failure, err error) {
	in := bufio.NewReader(r)
	dec := gob.NewDecoder(in) // reads no further than necessary, since in is an io.ByteReader
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

// attributesSize returns the approximate size of attributes in bytes.
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
