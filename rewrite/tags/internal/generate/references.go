package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A reference is a name, in lower case and without its ampersand and semicolon, and
// the character that it stands for (the first one, of two).
type reference struct {
	name string
	r    rune
	bare bool // HTML reads it without a semicolon too
}

// readReferences reads the map literals of package html.
func readReferences(path string) ([]reference, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	byName := map[string]reference{}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isName := pair.Key.(*ast.BasicLit)
		if !isName || key.Kind != token.STRING {
			return true
		}
		full, _ := strconv.Unquote(key.Value)
		value := pair.Value
		if two, ok := value.(*ast.CompositeLit); ok {
			value = two.Elts[0]
		}
		char, _, _, err := strconv.UnquoteChar(strings.Trim(value.(*ast.BasicLit).Value, "'"), '\'')
		if err != nil {
			panic(fmt.Sprintf("BUG: %s: %v", full, err))
		}
		name, semicolon := strings.CutSuffix(full, ";")
		lower := strings.ToLower(name)
		r := byName[lower]
		if r.name == "" || rank(char) > rank(r.r) || rank(char) == rank(r.r) && name == lower {
			r.name, r.r = lower, char
		}
		r.bare = r.bare || !semicolon
		byName[lower] = r
		return true
	})
	all := make([]reference, 0, len(byName))
	for _, r := range byName {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b reference) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// rank tells which of two characters whose names differ in case only matters more:
// &lt; is a bracket, &Lt; is not.
func rank(r rune) int {
	switch {
	case r < 0x80:
		return 2
	case strings.ContainsRune("‹⟨〈⁄∖«", r):
		return 1
	}
	return 0
}
