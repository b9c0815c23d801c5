package eval

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A Candidate is a question with a document that may answer it, until a person confirms that.
type Candidate struct {
	Question string
	Expected string // document id
	Asked    int    // how often the question was asked
	Cited    int    // answers to it that cite the document
}

// WriteCandidates writes a CSV file that ReadQuestions reads, with an empty column confirmed. Cells
// that a spreadsheet could take for a formula begin with an apostrophe.
func WriteCandidates(w io.Writer, list []Candidate) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{questionColumn, expectedColumn, confirmedColumn, "asked", "cited"}) // Flush keeps the error
	for _, c := range list {
		_ = out.Write([]string{Harmless(strings.TrimSpace(c.Question)), Harmless(literal(c.Expected)), "", strconv.Itoa(c.Asked), strconv.Itoa(c.Cited)})
	}
	out.Flush()
	return out.Error()
}

// formulas are the first characters of cells that spreadsheets calculate, also in full width. Spaces and
// characters that do not show may be before them, as OWASP's page on CSV injection says of tabs.
const formulas = "=+-@＝＋－＠"

// Harmless returns a cell that no spreadsheet calculates. An apostrophe before such a cell is doubled.
func Harmless(cell string) string {
	if isQuoted(strings.TrimLeft(cell, "'")) {
		return "'" + cell
	}
	return cell
}

// unquoted undoes Harmless.
func unquoted(cell string) string {
	if rest, ok := strings.CutPrefix(cell, "'"); ok && isQuoted(strings.TrimLeft(rest, "'")) {
		return rest
	}
	return cell
}

func isQuoted(text string) bool {
	text = strings.TrimLeftFunc(text, func(c rune) bool { return unicode.In(c, unicode.White_Space, unicode.C) })
	c, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune(formulas, c)
}

// literal returns a document id that is not taken for a broken pattern.
func literal(id string) string {
	if !IsPattern(id) || doublestar.ValidatePattern(id) {
		return id
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(id)
}

// isYes reports whether a cell confirms its row.
func isYes(cell string) bool {
	switch strings.ToLower(strings.TrimSpace(cell)) {
	case "yes", "y", "true", "x", "1":
		return true
	}
	return false
}
