package extract

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Attributes are what a document says of itself beside its text: a text, a finite
// number (float64), a bool or a list of texts by name. Within a file a name stands for
// one of the four. What is none of them is left out, name by name, and reported: a filter
// that met a value only sometimes would be wrong without a word.

const (
	// MaxAttributes is how many one document may have.
	MaxAttributes = 64
	// maxAttributeName and maxAttributeText bound them, in bytes.
	maxAttributeName = 64
	maxAttributeText = 1 << 10
	// maxAttributeList is how many texts a list may have.
	maxAttributeList = 1 << 10
	// maxWhole is the largest whole number that no other one becomes as a float64.
	maxWhole = 1<<53 - 1
)

// Why a value is no attribute.
const (
	reasonNested = "an object, or a list of other things than texts"
	reasonNumber = "no finite number"
	reasonWhole  = "a whole number that is too large to be exact"
	reasonLong   = "a text that is too long"
	reasonMixed  = "of another type than before"
	reasonMany   = "more than there may be"
	reasonObject = "no object"
	reasonName   = "a name that nobody could write"
)

// Left is an error that says which attributes of a file's documents were left out,
// and why. Nothing else is wrong with it.
type Left struct {
	reasons map[string]string // by name
	types   map[string]kind   // that names stand for
}

// maxLeft is how many names an error lists, maxRemembered how many it knows.
const (
	maxLeft       = 3
	maxRemembered = 10_000
)

func (l *Left) Error() string {
	names := slices.Sorted(maps.Keys(l.reasons))
	var b strings.Builder
	b.WriteString("attributes left out: ")
	for i, name := range names[:min(len(names), maxLeft)] {
		if i > 0 {
			b.WriteString(", ")
		}
		if name == "" {
			b.WriteString(l.reasons[name])
		} else {
			fmt.Fprintf(&b, "%s (%s)", name, l.reasons[name])
		}
	}
	if more := len(names) - maxLeft; more > 0 {
		fmt.Fprintf(&b, ", and %d more", more)
	}
	return b.String()
}

// err is l where something was left out.
func (l *Left) err() error {
	if len(l.reasons) == 0 {
		return nil
	}
	return l
}

// after is what is said of a file that is broken in part.
func (l *Left) after(broken error) error {
	if len(l.reasons) == 0 {
		return broken
	}
	return Brokenf("%v; %v", broken, l)
}

func (l *Left) note(name, reason string) {
	if l.reasons == nil {
		l.reasons = map[string]string{}
	}
	if _, known := l.reasons[name]; !known && len(l.reasons) < maxRemembered {
		l.reasons[name] = reason
	}
}

// kind is one of the four that an attribute can be.
type kind uint8

const (
	textKind kind = iota
	numberKind
	boolKind
	listKind
)

// sameKind tells whether a name stands for what it stood for before in this file.
func (l *Left) sameKind(name string, k kind) bool {
	before, known := l.types[name]
	if !known && len(l.types) < maxRemembered {
		if l.types == nil {
			l.types = map[string]kind{}
		}
		l.types[name] = k
	}
	return !known || before == k
}

// An attributeSet is the attributes of one document.
type attributeSet struct {
	values map[string]any
	left   *Left // of the file
	quiet  bool  // what is left out stands in the text
}

func (s *attributeSet) has(name string) bool {
	_, ok := s.values[name]
	return ok
}

func (s *attributeSet) refuse(name, reason string) {
	if s.quiet {
		return
	}
	if name != "" && (len(name) > maxAttributeName || !keyable(name)) {
		name, reason = "", reasonName
	}
	s.left.note(name, reason)
}

func (s *attributeSet) addText(name, text string) {
	if len(text) > maxAttributeText {
		s.refuse(name, reasonLong)
		return
	}
	s.add(name, textKind, strings.Clone(text)) // not with all of the file behind it
}

// addList takes a list of texts; an empty one is no attribute.
func (s *attributeSet) addList(name string, list []string) {
	for i, text := range list {
		if len(text) > maxAttributeText {
			s.refuse(name, reasonLong)
			return
		}
		list[i] = strings.Clone(text)
	}
	switch {
	case len(list) > maxAttributeList:
		s.refuse(name, reasonMany)
	case len(list) > 0:
		s.add(name, listKind, list)
	}
}

func (s *attributeSet) addNumber(name string, n float64) {
	if math.IsInf(n, 0) || math.IsNaN(n) {
		s.refuse(name, reasonNumber)
		return
	}
	s.add(name, numberKind, n)
}

// addDigits takes a number as it is written in JSON.
func (s *attributeSet) addDigits(name, digits string) {
	n, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil:
		s.refuse(name, reasonNumber)
	case !strings.ContainsAny(digits, ".eE") && math.Abs(n) > maxWhole:
		s.refuse(name, reasonWhole)
	default:
		s.addNumber(name, n)
	}
}

func (s *attributeSet) add(name string, k kind, value any) {
	switch {
	case len(name) > maxAttributeName || !keyable(name):
		s.refuse("", reasonName)
	case len(s.values) == MaxAttributes && !s.has(name):
		s.refuse("", reasonMany)
	case !s.left.sameKind(name, k):
		s.refuse(name, reasonMixed)
	default:
		if s.values == nil {
			s.values = map[string]any{}
		}
		s.values[strings.Clone(name)] = value
	}
}
