package extract

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxFrontMatter is how many bytes are searched for the end of a front matter.
	maxFrontMatter = 64 << 10
	// maxEntry is the size limit of one key with its value: the YAML parser takes time quadratic
	// in the nesting depth.
	maxEntry = 4 << 10
)

// A FrontMatter is the YAML between --- lines at the start of a document, as the lines of each
// key. Each key is parsed separately and not decoded, so that anchors, tags and merges have no
// effect and the cost is bounded.
type FrontMatter []string

// SplitFrontMatter divides a document into its front matter and its body. If the lines do not look
// like a YAML map, everything is body: --- may be a thematic break.
func SplitFrontMatter(text string) (matter FrontMatter, body string) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return nil, text
	}
	look := rest[:min(len(rest), maxFrontMatter)]
	at, start := 0, -1 // start is that of the previous key
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
			// it continues the previous key, or is a comment or blank
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

// titleName is the key of the title.
const titleName = "title"

// Title returns the title; "" if there is none.
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

// A NotYAMLError means that an entry is not a single key and value in YAML.
type NotYAMLError struct{ err error }

func (e *NotYAMLError) Error() string {
	first, _, _ := strings.Cut(e.err.Error(), "\n") // the next lines quote the text
	return first
}

func (e *NotYAMLError) Unwrap() error { return e.err }

// Entry parses one element of a FrontMatter into its key and value.
func Entry(lines string) (name string, value ast.Node, err error) {
	// A panic on hostile text must not end the process.
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
