package eval

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Questions are the rows of a CSV file of questions and the documents that answer them.
type Questions struct {
	File string // its base name
	Rows []Row  // those to be asked

	Unconfirmed int // rows that a person has not confirmed, or has refused
}

// A Row says that a document, or every document that a pattern matches, answers a question.
type Row struct {
	Line     int    // in the file, from 1
	Question string // without surrounding white space
	Expected string // likewise: a document id, or a doublestar pattern of ids
}

// The columns of a CSV file of questions.
const (
	questionColumn  = "question"
	expectedColumn  = "expected"
	confirmedColumn = "confirmed"
)

// ReadQuestions reads a CSV file with the columns question and expected, in any order and named by
// the first line; other columns are ignored, except confirmed: rows with anything but yes, y, true, x
// or 1 in it are left out. The separator is a comma, semicolon or tab, whichever the first line
// contains. An apostrophe before =, +, - or @, as WriteCandidates and spreadsheets write it, is no part
// of a cell. A question with several documents has several rows. The error names the first unusable
// rows; if the file does not exist, or no row is confirmed, it is an ErrNoCollection.
func ReadQuestions(ctx context.Context, path string) (Questions, error) {
	q := Questions{File: filepath.Base(path)}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return q, missing(path + " is not a CSV file of questions")
	}
	f, err := os.Open(path)
	if err != nil {
		return q, err
	}
	defer func() { _ = f.Close() }()
	t := table{path: path}
	if err := t.open(f); err != nil {
		return q, err
	}
	var wrong []error
	for ctx.Err() == nil {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && t.unconfirmed {
			q.Unconfirmed++
			continue
		}
		if err == nil {
			q.Rows = append(q.Rows, row)
			continue
		}
		if wrong = append(wrong, err); row.Line == 0 {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return q, fmt.Errorf("read %s: %w", path, ctx.Err())
	case len(wrong) > 0:
		return q, listed(wrong)
	case len(q.Rows) == 0 && q.Unconfirmed > 0:
		return q, missing(fmt.Sprintf("%s: none of %d rows is confirmed; write yes into the column %s of each that is right", path, q.Unconfirmed, confirmedColumn))
	case len(q.Rows) == 0:
		return q, errors.New(path + " has no questions")
	}
	return q, nil
}

// mostWrong is the number of unusable rows that an error names.
const mostWrong = 5

// listed combines several errors into one.
func listed(wrong []error) error {
	var lines []string
	for _, err := range first(wrong, mostWrong) {
		lines = append(lines, err.Error())
	}
	if rest := len(wrong) - len(lines); rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d rows more", rest))
	}
	return errors.New(strings.Join(lines, "; "))
}

// A table is an open CSV file.
type table struct {
	path               string
	rows               *csv.Reader
	columns            int
	question, expected int // column indices
	confirmed          int // -1 if there is no such column

	unconfirmed bool // the row read last is not confirmed
}

// open reads the first line.
func (t *table) open(r io.Reader) error {
	text := bufio.NewReaderSize(r, 64<<10)
	if mark, _, err := text.ReadRune(); err == nil && mark != '\ufeff' {
		_ = text.UnreadRune()
	}
	head, _ := text.Peek(4 << 10)
	line, _, _ := strings.Cut(string(head), "\n")
	t.rows = csv.NewReader(text)
	t.rows.FieldsPerRecord, t.rows.TrimLeadingSpace = -1, true
	for _, comma := range ";\t" {
		if !strings.Contains(line, ",") && strings.ContainsRune(line, comma) {
			t.rows.Comma, t.rows.TrimLeadingSpace = comma, comma != '\t'
			break
		}
	}
	names, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return errors.New(t.path + " is empty")
	}
	if err != nil {
		return t.wrong(err)
	}
	t.columns = len(names)
	for i := range names {
		names[i] = strings.ToLower(strings.TrimSpace(names[i]))
	}
	t.question, t.expected, t.confirmed = slices.Index(names, questionColumn), slices.Index(names, expectedColumn), slices.Index(names, confirmedColumn)
	if t.question < 0 || t.expected < 0 {
		return fmt.Errorf("%s:1: the first line names the columns %q; %s and %s must be among them", t.path, clip(strings.Join(names, ",")), questionColumn, expectedColumn)
	}
	return nil
}

// wrong returns an error that says where the text is not CSV.
func (t *table) wrong(err error) error {
	var syntax *csv.ParseError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("read %s: %w", t.path, err)
	}
	return fmt.Errorf("%s:%d:%d: not CSV: %w", t.path, syntax.Line, syntax.Column, syntax.Err)
}

// next reads a row; the error is io.EOF after the last. After an error, a Row with a Line is
// unusable but reading can go on; without a Line the start of the next row is unknown.
func (t *table) next() (Row, error) {
	fields, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return Row{}, err
	}
	if err != nil {
		return Row{}, t.wrong(err)
	}
	line, _ := t.rows.FieldPos(0)
	row := Row{Line: line}
	bad := func(format string, args ...any) (Row, error) {
		return row, fmt.Errorf("%s:%d: %s", t.path, line, fmt.Sprintf(format, args...))
	}
	if len(fields) != t.columns {
		return bad("%d columns where the first line has %d; a text with %q in it needs quotes around it", len(fields), t.columns, t.rows.Comma)
	}
	row.Question = strings.TrimSpace(unquoted(fields[t.question]))
	row.Expected = strings.TrimPrefix(strings.TrimSpace(unquoted(fields[t.expected])), "./")
	t.unconfirmed = t.confirmed >= 0 && !isYes(fields[t.confirmed])
	switch {
	case row.Question == "":
		return bad("no question")
	case row.Expected == "":
		return bad("no expected document; messages that no document answers are for --off-topic")
	case !utf8.ValidString(row.Question + row.Expected):
		return bad("not in UTF-8; save the file in that encoding")
	case IsPattern(row.Expected) && !doublestar.ValidatePattern(row.Expected):
		return bad("%q is no pattern: %v", clip(row.Expected), doublestar.ErrBadPattern)
	}
	return row, nil
}

// IsPattern reports whether an expected document may stand for several.
func IsPattern(expected string) bool { return strings.ContainsAny(expected, `*?[{`) }

// Expected returns the expected documents of all rows.
func (q Questions) Expected() (list []string) {
	for _, row := range q.Rows {
		list = append(list, row.Expected)
	}
	return list
}

// Collection returns the questions as a collection of these documents, and the rows that match
// none of them: they count as relevant documents that cannot be found. If bases is true, document
// ids begin with the base and a slash, which a row may omit.
func (q Questions) Collection(documents []Document, bases bool) (c *Collection, unmatched []Row) {
	c = &Collection{Documents: documents, Grades: map[string]Grades{}, Judgments: q.File}
	held := heldIn(documents, bases)
	asked := map[string]string{} // question → id
	for _, row := range q.Rows {
		id, again := asked[row.Question]
		if !again {
			id = strconv.Itoa(row.Line)
			asked[row.Question] = id
			c.Queries = append(c.Queries, Query{ID: id, Text: row.Question})
			c.Grades[id] = Grades{}
		}
		found := held.matching(row.Expected)
		if len(found) == 0 {
			unmatched = append(unmatched, row)
			found = []string{row.Expected}
		}
		for _, doc := range found {
			c.Grades[id][doc] = 1
		}
	}
	return c, unmatched
}

// A holding maps the names that a row may use for documents to their ids.
type holding map[string][]string // ids by name

func heldIn(documents []Document, bases bool) holding {
	held := make(holding, len(documents))
	for _, d := range documents {
		held[d.ID] = append(held[d.ID], d.ID)
		if _, plain, cut := strings.Cut(d.ID, "/"); bases && cut {
			held[plain] = append(held[plain], d.ID)
		}
	}
	return held
}

// matching returns the ids of the name expected or, sorted, of all names that it matches as a
// pattern.
func (h holding) matching(expected string) []string {
	if ids := h[expected]; len(ids) > 0 || !IsPattern(expected) {
		return ids
	}
	found := map[string]bool{}
	for name, ids := range h {
		if doublestar.MatchUnvalidated(expected, name) {
			for _, id := range ids {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
