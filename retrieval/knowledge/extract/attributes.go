package extract

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// An attribute has a name and a value: a text, a finite number (float64), a bool or a
// list of texts. All values of a name in one file have the same type. Other values are
// left out and reported, because a filter on that name would silently miss documents.

const (
	// MaxAttributes is how many attributes one document may have.
	MaxAttributes = 64
	// maxAttributeName and maxAttributeText are the limits of a name and a text, in bytes.
	maxAttributeName = 64
	maxAttributeText = 1 << 10
	// maxAttributeList is how many texts a list may hold.
	maxAttributeList = 1 << 10
	// maxWhole is the largest whole number up to which float64 holds each exactly.
	maxWhole = 1<<53 - 1
)

// Reasons why a value is left out.
const (
	reasonNested = "an object, or a list of other things than texts"
	reasonNumber = "no finite number"
	reasonWhole  = "a whole number that is too large to be exact"
	reasonLong   = "a text that is too long"
	reasonMixed  = "of another type than before"
	reasonMany   = "more attributes or list elements than allowed"
	reasonObject = "no object"
	reasonName   = "a name that nobody could write"
)

// AttributesLeftOut is the error for a file that was read completely except for some attributes. It
// names them and the reasons.
type AttributesLeftOut struct {
	reasons map[string]string       // by attribute name
	types   map[string]reflect.Type // types of values seen so far, by name
}

func newLeft() *AttributesLeftOut {
	return &AttributesLeftOut{reasons: map[string]string{}, types: map[string]reflect.Type{}}
}

// maxLeft is how many names the error lists, maxRemembered how many are tracked.
const (
	maxLeft       = 3
	maxRemembered = 10_000
)

func (l *AttributesLeftOut) Error() string {
	names := slices.Sorted(maps.Keys(l.reasons))
	var parts []string
	for _, name := range names[:min(len(names), maxLeft)] {
		part := l.reasons[name]
		if name != "" {
			part = fmt.Sprintf("%s (%s)", name, part)
		}
		parts = append(parts, part)
	}
	if more := len(names) - maxLeft; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "attributes left out: " + strings.Join(parts, ", ")
}

// err returns l if something was left out, else nil.
func (l *AttributesLeftOut) err() error {
	if len(l.reasons) == 0 {
		return nil
	}
	return l
}

// after returns the error for a file that is also partly broken.
func (l *AttributesLeftOut) after(broken error) error {
	if len(l.reasons) == 0 {
		return broken
	}
	return Brokenf("%v; %v", broken, l)
}

func (l *AttributesLeftOut) note(name, reason string) {
	if _, known := l.reasons[name]; !known && len(l.reasons) < maxRemembered {
		l.reasons[name] = reason
	}
}

// sameType reports whether earlier values of a name in this file had the type of value.
func (l *AttributesLeftOut) sameType(name string, value any) bool {
	before, known := l.types[name]
	if !known && len(l.types) < maxRemembered {
		l.types[name] = reflect.TypeOf(value)
	}
	return !known || before == reflect.TypeOf(value)
}

// An attributeSet collects the attributes of one document.
type attributeSet struct {
	values map[string]any
	left   *AttributesLeftOut // of the file
	quiet  bool               // values that are left out are not reported, because the text contains them
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
	s.add(name, strings.Clone(text)) // a copy, so that the whole file is not kept in memory
}

// addList adds a list of texts. An empty list is ignored.
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
		s.add(name, list)
	}
}

// addDigits adds a number as written in JSON.
func (s *attributeSet) addDigits(name, digits string) {
	n, err := strconv.ParseFloat(digits, 64) // an error also for what is too large
	switch {
	case err != nil:
		s.refuse(name, reasonNumber)
	case !strings.ContainsAny(digits, ".eE") && math.Abs(n) > maxWhole:
		s.refuse(name, reasonWhole)
	default:
		s.add(name, n)
	}
}

func (s *attributeSet) add(name string, value any) {
	switch {
	case len(name) > maxAttributeName || !keyable(name):
		s.refuse("", reasonName)
	case len(s.values) == MaxAttributes && !s.has(name):
		s.refuse("", reasonMany)
	case !s.left.sameType(name, value):
		s.refuse(name, reasonMixed)
	default:
		if s.values == nil {
			s.values = map[string]any{}
		}
		s.values[strings.Clone(name)] = value
	}
}
