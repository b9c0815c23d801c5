package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// partSize is the minimum text of a part in bytes: some hundred entries.
	partSize = 32 << 10
	// maxWhole is the longest text that is parsed as a whole if it cannot be split.
	maxWhole = 4 << 20
)

// An Error says where and why a text is not a single YAML document.
type Error struct {
	Line, Column int // from 1
	Reason       string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Reason) }

// A Part is a part of a document. If Key is "", Node is the root, or a map with some of its
// entries; otherwise it is a map with further entries of the root's map at Key.
type Part struct {
	Key  string
	Node ast.Node
}

// Parts parses a text. An *Error comes alone, and last.
func Parts(text []byte) iter.Seq2[Part, *Error] {
	return parts(string(TrimBOM(text)), partSize)
}

func parts(text string, size int) iter.Seq2[Part, *Error] {
	return func(yield func(Part, *Error) bool) {
		text := strings.ReplaceAll(text, "\r\n", "\n") // after comments the parser counts it as two lines
		pieces := split(text, size)
		if len(pieces) == 1 {
			root, err := parse(pieces[0])
			yield(Part{"", root}, err)
			return
		}
		stop := make(chan struct{})
		defer close(stop)
		r := reader{pieces: pieces, results: ahead(pieces, stop)}
		root, err := r.next()
		blocks, ok := taken(root, pieces[1:])
		if !ok {
			if len(text) <= maxWhole {
				root, err = parse(piece{text: text})
			} else if err == nil {
				err = &Error{pieces[1].lines[0].add, 1, "is not read: a value above goes on over this line; indent it deeper"}
			}
			yield(Part{"", root}, err)
			return
		}
		if len(root.(*ast.MappingNode).Values) > 0 && !yield(Part{"", root}, nil) {
			return
		}
		for r.read < len(pieces) {
			key := pieces[r.read].key
			part := Part{key, nil}
			if part.Node, err = r.next(); blocks[key] != nil && err == nil {
				block := blocks[key]
				blocks[key] = nil
				block.Value = part.Node
				part = Part{"", ast.Mapping(block.GetToken(), false, block)}
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// taken removes from a root the entries whose values are in pieces. It returns false if one of
// them is missing in the root, or is not blank there.
func taken(root ast.Node, pieces []piece) (map[string]*ast.MappingValueNode, bool) {
	m, ok := root.(*ast.MappingNode)
	if !ok {
		return nil, false
	}
	blocks := map[string]*ast.MappingValueNode{}
	for _, p := range pieces {
		blocks[p.key] = nil
	}
	found := 0
	m.Values = slices.DeleteFunc(m.Values, func(entry *ast.MappingValueNode) bool {
		key := entry.Key.GetToken().Value
		_, cut := blocks[key]
		_, blank := entry.Value.(*ast.NullNode)
		if cut && blank {
			blocks[key] = entry
			found++
		}
		return cut && blank
	})
	return blocks, found == len(blocks)
}

// A reader returns the roots of pieces.
type reader struct {
	pieces  []piece
	results <-chan chan result
	read    int // pieces so far
}

// next returns the root of the next piece. Text in quotes may look like an entry, so that a piece
// ends within it; then next returns the root of that piece joined with the following one.
func (r *reader) next() (ast.Node, *Error) {
	one := <-<-r.results
	p := r.pieces[r.read]
	r.read++
	if one.err == nil || p.key == "" || r.read == len(r.pieces) || r.pieces[r.read].key != p.key {
		return one.root, one.err
	}
	p.text += r.pieces[r.read].text
	if root, err := parse(p); err == nil {
		<-<-r.results
		r.read++
		return root, nil
	}
	return nil, one.err
}

// A result is the result of parse.
type result struct {
	root ast.Node
	err  *Error
}

// ahead parses pieces concurrently ahead of their use, and sends the results in order.
func ahead(pieces []piece, stop <-chan struct{}) <-chan chan result {
	results := make(chan chan result, runtime.GOMAXPROCS(0))
	go func() {
		for _, p := range pieces {
			one := make(chan result, 1)
			select {
			case results <- one:
			case <-stop:
				return
			}
			go func() {
				// A panic outside of the main goroutine would end the process.
				defer func() {
					if trouble := recover(); trouble != nil {
						one <- result{err: &Error{p.lines[0].add + 1, 1, fmt.Sprintf("is not YAML: %v", trouble)}}
					}
				}()
				root, err := parse(p)
				one <- result{root, err}
			}()
		}
	}()
	return results
}

// parse returns the root of the only document in a piece.
func parse(p piece) (ast.Node, *Error) {
	fail := func(line, column int, format string, args ...any) (ast.Node, *Error) {
		return nil, &Error{line, column, fmt.Sprintf(format, args...)}
	}
	tokens := lexer.Tokenize(p.text)
	p.locate(tokens)
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil && syntax.GetToken().Position != nil {
			at := syntax.GetToken().Position
			return fail(at.Line, at.Column, "is not YAML: %s", syntax.GetMessage())
		}
		return fail(1, 1, "is not YAML: %v", err)
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType && doc.Body.Type() != ast.DirectiveType {
			docs = append(docs, doc.Body)
		}
	}
	switch {
	case len(docs) == 0:
		return fail(1, 1, "is empty")
	case len(docs) > 1:
		at := Position(docs[1])
		return fail(at.Line, at.Column, "holds a second document; use one file for each")
	}
	return docs[0], nil
}

// Position returns the position of a node.
func Position(n ast.Node) token.Position {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return *t.Position
	}
	return token.Position{Line: 1, Column: 1}
}

// TrimBOM returns a text without the byte order mark that some editors put first.
func TrimBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }
