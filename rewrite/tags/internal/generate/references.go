package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A reference is a name, in lower case and without ampersand and semicolon, and the character
// that it stands for (the first one, if two).
type reference struct {
	name string
	r    rune
	bare bool // HTML also accepts it without a semicolon
}

// entry matches a name and the first of its characters in the map literals of package html.
var entry = regexp.MustCompile(`"(\w+)(;?)":\s*\{?'([^']+)'`)

// readReferences reads the map literals of package html.
func readReferences(path string) ([]reference, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	byName := map[string]reference{}
	for _, m := range entry.FindAllStringSubmatch(string(source), -1) {
		name, lower := m[1], strings.ToLower(m[1])
		char, _, _, err := strconv.UnquoteChar(m[3], '\'')
		if err != nil {
			return nil, fmt.Errorf("character of %s: %w", name, err)
		}
		r := byName[lower]
		if r.name == "" || rank(char) > rank(r.r) || rank(char) == rank(r.r) && name == lower {
			r.name, r.r = lower, char
		}
		r.bare = r.bare || m[2] == ""
		byName[lower] = r
	}
	all := make([]reference, 0, len(byName))
	for _, r := range byName {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b reference) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// rank says which of two characters whose names differ only in case is preferred: &lt; is a
// bracket, &Lt; is not.
func rank(r rune) int {
	switch {
	case r < 0x80:
		return 2
	case strings.ContainsRune("‹⟨〈⁄∖«", r):
		return 1
	}
	return 0
}
