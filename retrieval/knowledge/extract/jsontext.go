package extract

import (
	"strings"

	"github.com/tidwall/gjson"
)

// flatten writes a valid value as lines of "path: value". Each object in an array is a paragraph;
// plain values of an array share a line. Top-level fields for which left returns true are left
// out.
func flatten(value gjson.Result, left func(key string) bool) (string, error) {
	f := &flattener{left: left}
	f.value(value)
	f.endLine()
	return f.out.String(), f.err
}

type flattener struct {
	left   func(key string) bool
	out    strings.Builder
	path   []string
	inLine bool // a line with values of an array is open
	length int  // of that line
	err    error
}

// lineLength is the approximate length, in bytes, of a line with the values of an array.
const lineLength = 200

// value writes a value, and reports whether to continue. gjson scans nested values once per level,
// and the depth is limited.
func (f *flattener) value(v gjson.Result) bool {
	switch {
	case v.Type == gjson.JSON && len(f.path) > maxDepth:
		f.err = errDeepJSON
	case v.IsObject():
		f.object(v)
	case v.IsArray():
		f.array(v)
	case v.Type == gjson.String:
		f.leaf(foldLines(v.Str))
	case v.Type != gjson.Null:
		f.leaf(v.Raw) // as written
	}
	if f.err == nil && f.out.Len() > MaxText {
		f.err = ErrTooMuchText
	}
	return f.err == nil
}

// leaf writes a plain value, on a new line or on the open line of its array.
func (f *flattener) leaf(text string) {
	if text == "" {
		return
	}
	if f.inLine && f.length+len(text) < lineLength {
		f.out.WriteString(", " + text)
		f.length += len(text) + 2
		return
	}
	f.endLine()
	start := f.out.Len()
	for _, key := range f.path {
		if key != "" && f.out.Len() > start {
			f.out.WriteByte('.')
		}
		f.out.WriteString(key)
	}
	if f.out.Len() > start {
		f.out.WriteString(": ")
	}
	f.out.WriteString(text)
	f.inLine, f.length = true, f.out.Len()-start
}

func (f *flattener) endLine() {
	if f.inLine {
		f.out.WriteByte('\n')
		f.inLine = false
	}
}

// paragraph ends the current paragraph with a blank line.
func (f *flattener) paragraph() {
	f.endLine()
	if s := f.out.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		f.out.WriteByte('\n')
	}
}

func (f *flattener) object(v gjson.Result) {
	v.ForEach(func(key, value gjson.Result) bool {
		if len(f.path) == 0 && f.left(key.Str) {
			return true
		}
		name := oneLine(strings.ReplaceAll(key.Str, "\x00", ""))
		f.endLine()
		f.path = append(f.path, strings.ToValidUTF8(name[:min(len(name), maxHeader)], ""))
		more := f.value(value)
		f.path = f.path[:len(f.path)-1]
		f.endLine()
		return more
	})
}

func (f *flattener) array(v gjson.Result) {
	f.path = append(f.path, "") // for the depth
	v.ForEach(func(_, value gjson.Result) bool {
		nested := value.Type == gjson.JSON
		if nested {
			f.paragraph()
		}
		more := f.value(value)
		if nested {
			f.paragraph()
		}
		return more
	})
	f.path = f.path[:len(f.path)-1]
	f.endLine()
}
