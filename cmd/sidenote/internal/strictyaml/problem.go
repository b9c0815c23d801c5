package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// MaxProblems is how many problems an error shows; the rest are counted.
const MaxProblems = 20

// A Place is the position of a value: a file with line and column (from 1), or a flag.
type Place struct {
	File         string // the path as given, or "--upstream"
	Line, Column int    // 0 for a flag
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	Place  Place
	Key    string // "policies.base.retrieval.top_k"; "" for the whole file
	Reason string // for people, with the value
}

func (p Problem) String() string {
	text := p.Reason
	if p.Key != "" {
		text = p.Key + ": " + text
	}
	if p.Place.File != "" {
		text = p.Place.String() + ": " + text
	}
	return text
}

// Problems lists everything that is wrong with a configuration, in the order of files and lines.
type Problems []Problem

// Error lists at most MaxProblems problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, 0, len(ps))
	for _, p := range ps[:min(len(ps), MaxProblems)] {
		lines = append(lines, p.String())
	}
	if more := len(ps) - MaxProblems; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Sorted sorts problems by file, in reading order, and by line, and removes duplicates, as a value
// may be checked twice.
func (ps Problems) Sorted(files []string) Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.Place.File), slices.Index(files, b.Place.File)),
			cmp.Compare(a.Place.Line, b.Place.Line),
			cmp.Compare(a.Place.Column, b.Place.Column))
	})
	return slices.Compact(ps)
}

// Cause returns a file error without its path, which the message already contains.
func Cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
