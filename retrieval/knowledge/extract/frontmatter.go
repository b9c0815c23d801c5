package extract

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxFrontMatter bounds what is looked through for the end of a front matter, in bytes.
	maxFrontMatter = 64 << 10
	// maxEntry bounds what one name in it stands for, in bytes.
	maxEntry = 4 << 10
)

// A FrontMatter is the YAML between --- lines from the start of a document: the
// lines of each of its names. It is decoded name by name, and no reference in it is
// followed, so that nothing in it can cost much.
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
		if name, value := decodeEntry(entry); name == titleName {
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

// decodeEntry returns a name and what it stands for; nil where that is not YAML.
func decodeEntry(entry string) (name string, value ast.Node) {
	// A parser of hostile text must not be the end of the process.
	defer func() {
		if recover() != nil {
			name, value = "", nil
		}
	}()
	if len(entry) > maxEntry {
		return "", nil
	}
	file, err := parser.ParseBytes([]byte(entry), 0)
	if err != nil || len(file.Docs) != 1 {
		return "", nil
	}
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		if len(body.Values) == 1 {
			return body.Values[0].Key.GetToken().Value, body.Values[0].Value
		}
	case *ast.MappingValueNode:
		return body.Key.GetToken().Value, body.Value
	}
	return "", nil
}
