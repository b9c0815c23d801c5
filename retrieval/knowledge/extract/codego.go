package extract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// maxParsed is the size, in bytes, up to which Go code is parsed: a syntax tree takes
// fifty times as much memory. Larger files, which are mostly generated, are divided by
// their layout.
const maxParsed = 1 << 20

// goParts returns the declarations of a Go file; nil if it cannot be parsed. Text between
// two declarations belongs to the second.
func goParts(text string) (parts []Part) {
	// A panic on hostile text must not end the process.
	defer func() {
		if recover() != nil {
			parts = nil
		}
	}()
	if len(text) > maxParsed {
		return nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	file := files.File(parsed.FileStart)
	parts = []Part{{Name: "package " + parsed.Name.Name}}
	end := lineAfter(text, file.Offset(parsed.Name.End()))
	for _, d := range parsed.Decls {
		name := goName(d)
		at, declared := end, file.Offset(d.Pos())
		if after := file.Offset(d.End()); after > end { // otherwise end stays: the line may be long
			end = lineAfter(text, after)
		}
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue // imports stay in the part of the package clause
		}
		at += BlankLines(text[at:])
		if last := parts[len(parts)-1]; at <= last.Start || at > declared {
			continue // it is on the same line as the previous declaration
		}
		start := strings.LastIndexByte(text[:declared], '\n') + 1
		parts = append(parts, Part{Start: at, Name: name, Head: strings.TrimRight(text[start:lineAfter(text, declared)], "\n") + "\n"})
	}
	return parts
}

// lineAfter returns the start of the line that follows the one at offset at.
func lineAfter(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// BlankLines returns the length of the blank lines at the start of text.
func BlankLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			return n
		}
		n += len(line)
	}
	return n
}

// goName returns the name that is declared; of a group, the first name.
func goName(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && len(d.Recv.List) == 1 {
			if receiver := receiverName(d.Recv.List[0].Type); receiver != "" {
				return receiver + "." + d.Name.Name
			}
		}
		return d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				return s.Name.Name
			case *ast.ValueSpec:
				return s.Names[0].Name
			}
		}
	}
	return ""
}

// receiverName returns the first type name in t; type parameters come after it.
func receiverName(t ast.Expr) (name string) {
	ast.Inspect(t, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
