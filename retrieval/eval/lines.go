package eval

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxLine is the maximum length of a line, in bytes.
const maxLine = 64 << 20

// readLines calls tell with each non-blank line of a file below dir, and its number from 1. Errors
// begin with file and line.
func readLines(ctx context.Context, dir, name string, tell func(number int, line []byte) error) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	number := 0
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		line := lines.Bytes()
		if number++; number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := tell(number, line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: the line is longer than %d MiB", path, number+1, maxLine>>20)
	} else if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// A record is a line of corpus.jsonl or queries.jsonl.
type record struct {
	ID    string   `json:"_id"`
	Title string   `json:"title"`
	Text  string   `json:"text"`
	Turns []string `json:"turns"` // of a query
}

// readDocuments calls tell with each line of a JSONL file of documents or queries. It returns the
// line numbers by id. An empty file and a repeated id are errors.
func readDocuments(ctx context.Context, dir, name string, tell func(record)) (at map[string]int, err error) {
	at = map[string]int{}
	err = readLines(ctx, dir, name, func(number int, line []byte) error {
		var d record
		if err := json.Unmarshal(line, &d); err != nil {
			return readable(err)
		}
		if d.ID == "" {
			return errors.New("no _id")
		}
		if other := at[d.ID]; other > 0 {
			return fmt.Errorf("_id %q stands on line %d too", clip(d.ID), other)
		}
		at[d.ID] = number
		tell(d)
		return nil
	})
	if err == nil && len(at) == 0 {
		err = fmt.Errorf("%s is empty", filepath.Join(dir, name))
	}
	return at, err
}

// readable rewrites an error of encoding/json in terms of JSON rather than of Go.
func readable(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %s (byte %d of the line)", strings.TrimPrefix(syntax.Error(), "json: "), syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("%s, not an object", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is not a string but a %s", kind.Field, kind.Value)
	}
	return err
}

// clip shortens a text for an error message.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
