package extract

import (
	"strings"

	"github.com/tidwall/gjson"
)

// readRecord returns the document in raw, which is valid JSON. Values that cannot be attributes
// are recorded in left.
func readRecord(raw []byte, left *AttributesLeftOut) (d Document, id string, err error) {
	value := gjson.ParseBytes(raw)
	f := fieldsOf(value)
	if id = f.text(true, "id", "_id"); !keyable(id) {
		id = ""
	}
	d.Name = f.text(false, "title", "name")
	d.Text = f.text(false, "text", "content", "body")
	section := oneLine(f.text(false, "section", "heading"))
	if d.Text != "" || f.empty {
		d.Form = Markdown // Markdown is also suitable for cutting plain text
		if d.Text != "" && section != "" {
			d.Text = sectionMark + section + "\n\n" + d.Text
		}
	} else {
		d.Form = Records
		if d.Text, err = flatten(value, func(key string) bool { return key == attributesField && f.attributes.IsObject() }); err != nil {
			return Document{}, "", err
		}
		if section != "" {
			d.Text = sectionMark + section + "\n\n" + d.Text
		}
	}
	d.Attributes = f.gather(d.Form == Records, left)
	return d, id, nil
}

// sectionMark precedes the section of records, on a line of its own.
const sectionMark = "## "

// attributesField names the field that holds attributes.
const attributesField = "attributes"

// fields are the fields of a record.
type fields struct {
	known      map[string]gjson.Result // the first field of each name
	others     []plainField
	more       bool // others is incomplete
	empty      bool // it has an empty text
	attributes gjson.Result
}

type plainField struct {
	name  string
	value gjson.Result
}

// fieldsOf returns the fields of value; none if it is not an object.
func fieldsOf(value gjson.Result) (f fields) {
	if !value.IsObject() {
		return f
	}
	f.known = map[string]gjson.Result{}
	value.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "text", "content", "body":
			f.empty = f.empty || v.Raw == `""`
			fallthrough
		case "id", "_id", "title", "name":
			if _, seen := f.known[key.Str]; !seen {
				f.known[key.Str] = v
			}
		case attributesField:
			f.attributes = v
		case "section", "heading":
			if _, seen := f.known[key.Str]; !seen {
				f.known[key.Str] = v
			}
			fallthrough
		default:
			if f.more = f.more || len(f.others) > MaxAttributes; !f.more {
				f.others = append(f.others, plainField{key.Str, v})
			}
		}
		return true
	})
	return f
}

// text returns the first of the named fields that is a non-blank string or, if number is set, a
// number.
func (f fields) text(number bool, names ...string) string {
	for _, name := range names {
		v := f.known[name]
		if v.Type == gjson.String {
			if s := strings.TrimSpace(strings.ReplaceAll(lineFeeds(v.Str), "\x00", "")); s != "" {
				return strings.Clone(s)
			}
		}
		if v.Type == gjson.Number && number {
			return strings.Clone(v.Raw)
		}
	}
	return ""
}

// gather returns the attributes of a record: the fields of "attributes", then its other fields. If
// written is set, the other fields are in the text, so those that cannot be attributes are not
// reported.
func (f fields) gather(written bool, left *AttributesLeftOut) map[string]any {
	set := attributeSet{left: left}
	if f.attributes.IsObject() {
		n := 0
		f.attributes.ForEach(func(key, v gjson.Result) bool {
			set.addJSON(key.Str, v)
			n++
			return n <= MaxAttributes
		})
	} else if f.attributes.Exists() && f.attributes.Type != gjson.Null {
		set.refuse(attributesField, reasonObject)
	}
	set.quiet = written
	for _, o := range f.others {
		if !set.has(o.name) {
			set.addJSON(o.name, o.value)
		}
	}
	if f.more {
		set.refuse("", reasonMany)
	}
	return set.values
}

// addJSON adds a JSON value; null is ignored.
func (s *attributeSet) addJSON(name string, v gjson.Result) {
	switch v.Type {
	case gjson.Null:
	case gjson.String:
		s.addText(name, v.Str)
	case gjson.Number:
		s.addDigits(name, v.Raw)
	case gjson.JSON:
		if list, ok := textsIn(v); ok {
			s.addList(name, list)
		} else {
			s.refuse(name, reasonNested)
		}
	default:
		s.add(name, v.Bool())
	}
}

// textsIn returns the elements of a list if all are strings, up to one more than an attribute may
// have.
func textsIn(v gjson.Result) (list []string, ok bool) {
	ok = v.IsArray()
	v.ForEach(func(_, element gjson.Result) bool {
		ok = ok && element.Type == gjson.String
		list = append(list, element.Str)
		return ok && len(list) <= maxAttributeList
	})
	return list, ok
}
