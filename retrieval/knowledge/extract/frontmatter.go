package extract

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxFrontMatter bounds what is looked through for the end of a front matter, in bytes.
	maxFrontMatter = 64 << 10
	// maxEntry bounds the lines of one name, in bytes: what parses YAML takes time by the
	// square of how deep they nest.
	maxEntry = 4 << 10
)

// A FrontMatter is the YAML between --- lines from the start of a document: the
// lines of each of its names. It is parsed name by name and not decoded, so that neither
// anchors nor tags nor merges are followed, and nothing in it can cost much.
type FrontMatter []string

// SplitFrontMatter takes the front matter from a document. What does not look like
// a map is body: a document may begin with a thematic break.
func SplitFrontMatter(text string) (matter FrontMatter, body string) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return nil, text
	}
	look := rest[:min(len(rest), maxFrontMatter)]
	at, start := 0, -1 // of the name before
	end := func() {
		if start >= 0 {
			matter = append(matter, look[start:at])
		}
	}
	for line := range strings.Lines(look) {
		switch trimmed := strings.TrimRight(line, " \t\n"); {
		case trimmed == "---" || trimmed == "...":
			end()
			return matter, rest[at+len(line):]
		case trimmed == "" || strings.ContainsAny(line[:1], " \t#-]}"):
			// part of the name before, a comment, or nothing
		case strings.HasSuffix(trimmed, ":") || strings.Contains(trimmed, ": ") || strings.Contains(trimmed, ":\t"):
			end()
			start = at
		default:
			return nil, text
		}
		at += len(line)
	}
	return nil, text
}

// titleName is the name that names the document.
const titleName = "title"

// Title returns the title, "" for none.
func (m FrontMatter) Title() string {
	for _, entry := range m {
		if !strings.HasPrefix(entry, titleName+":") {
			continue
		}
		if name, value, err := Entry(entry); err == nil && name == titleName {
			switch v := value.(type) {
			case *ast.StringNode:
				return strings.TrimSpace(v.Value)
			case *ast.LiteralNode:
				return strings.TrimSpace(v.Value.Value)
			case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
				return v.GetToken().Value
			}
		}
	}
	return ""
}

// A NotYAMLError says that the lines of a name are not one name and its value in YAML.
type NotYAMLError struct{ err error }

func (e *NotYAMLError) Error() string {
	first, _, _ := strings.Cut(e.err.Error(), "\n") // an excerpt follows
	return first
}

func (e *NotYAMLError) Unwrap() error { return e.err }

// Entry returns the name and the value that lines of a FrontMatter have.
func Entry(lines string) (name string, value ast.Node, err error) {
	// A parser of hostile text must not be the end of the process.
	defer func() {
		if recover() != nil {
			name, value, err = "", nil, &NotYAMLError{errors.New("it cannot be parsed")}
		}
	}()
	if len(lines) > maxEntry {
		return "", nil, fmt.Errorf("is longer than %d bytes", maxEntry)
	}
	file, err := parser.ParseBytes([]byte(lines), 0)
	if err != nil {
		return "", nil, &NotYAMLError{err}
	}
	if len(file.Docs) == 1 {
		if m, ok := file.Docs[0].Body.(*ast.MappingNode); ok && len(m.Values) == 1 && m.Values[0].Value != nil {
			return m.Values[0].Key.GetToken().Value, m.Values[0].Value, nil
		}
	}
	return "", nil, &NotYAMLError{errors.New("one key and its value are expected")}
}
