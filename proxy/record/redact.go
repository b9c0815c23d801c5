package record

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sidenote/proxy/secrets"
	"sidenote/rewrite/chat"
)

// What replaces a redacted text.
const (
	anEmail   = "(an email)"
	aNumber   = "(a number)"
	aKey      = "(a key)"
	aRedacted = "(redacted)"
)

// A Redactor removes personal data from texts. API keys are always masked, as secrets.Mask does. It
// knows only what is written as such: an address that is spelled out in words stays.
type Redactor struct {
	// Emails removes addresses: NAME@DOMAIN, where the domain has a dot, and also @DOMAIN alone. The at
	// sign may be %40, or in full width.
	Emails bool
	// Numbers removes runs of seven or more digits of any script, with up to two spaces, hyphens,
	// dots, slashes or parentheses between two of them, and an IBAN's letters: phone, card, account
	// and customer numbers, also dates.
	Numbers  bool
	Patterns []*regexp.Regexp // what they match is removed, too
}

// Text returns a text without personal data. If it hides some by escapes of JSON or HTML, as in pasted
// code, it is returned decoded.
func (r *Redactor) Text(text string) string {
	if plain := unescaped(text); plain != text {
		if out := r.plain(plain); out != plain {
			return out
		}
	}
	return r.plain(text)
}

// shortened is Text for a text that may have been shortened to its two ends, with most bytes in total. A
// part of a secret may not be recognized, so that of such a text only the beginning stays, without the
// last word and a number before it.
func (r *Redactor) shortened(text string, most int) string {
	if len(text) < most-2*utf8.UTFMax || len(text) > most+len("\n") {
		return r.Text(text)
	}
	head := text[:most/2-utf8.UTFMax]
	head = head[:max(strings.LastIndexFunc(head, endsWord), 0)]
	head = strings.TrimRightFunc(head, func(c rune) bool { return unicode.IsDigit(c) || separates(c) })
	return r.Text(head) + " " + aRedacted
}

// endsWord reports whether c is in no address, key or word.
func endsWord(c rune) bool {
	return unicode.IsSpace(c) || c >= utf8.RuneSelf && c != '＠' && unicode.IsPunct(c)
}

// escape matches what JSON may write for a character from space to tilde, also in strings in strings.
// It is never changed.
var escape = regexp.MustCompile(`\\+(?:u00[2-7][0-9A-Fa-f]|["/\\])`)

// unescaped decodes the escapes of characters in a text that is not JSON or HTML as a whole.
func unescaped(text string) string {
	if strings.Contains(text, `\`) {
		text = escape.ReplaceAllStringFunc(text, func(e string) string {
			e = strings.TrimLeft(e, `\`)
			if c, err := strconv.ParseUint(strings.TrimPrefix(e, "u"), 16, 8); err == nil {
				return string(rune(c))
			}
			return e
		})
	}
	return html.UnescapeString(text)
}

// plain is Text for a text without escapes.
func (r *Redactor) plain(text string) string {
	text = r.words(text)
	if r.Numbers {
		text = withoutNumbers(text, nil)
	}
	return text
}

// name is Text for names, such as those of models, whose dates stay.
func (r *Redactor) name(text string) string {
	text = r.words(text)
	if r.Numbers {
		text = withoutNumbers(text, isDate)
	}
	return text
}

// isDate reports whether a number is a day of this century, as in gpt-4o-2024-08-06.
func isDate(number string) bool {
	_, err := time.Parse("20060102", strings.ReplaceAll(number, "-", ""))
	return err == nil && strings.HasPrefix(number, "20")
}

// words redacts all but numbers.
func (r *Redactor) words(text string) string {
	text = secrets.Mask(text)
	for _, p := range r.Patterns {
		text = p.ReplaceAllLiteralString(text, aRedacted)
	}
	if r.Emails {
		text = withoutEmails(text)
	}
	return text
}

// withoutEmails replaces the addresses in a text.
func withoutEmails(text string) string {
	var out strings.Builder
	written := 0
	for i := 0; i < len(text); {
		width := 0
		switch {
		case text[i] == '@':
			width = len("@")
		case text[i] == '%' && strings.HasPrefix(text[i:], "%40"):
			width = len("%40")
		case strings.HasPrefix(text[i:], "＠"):
			width = len("＠")
		}
		from, to := i, i
		if width > 0 {
			from, to = nameBefore(text, written, i), domainAfter(text, i+width)
		}
		if to <= i+width {
			i += max(width, 1)
			continue
		}
		out.WriteString(text[written:from])
		out.WriteString(anEmail)
		written, i = to, to
	}
	if written == 0 {
		return text
	}
	out.WriteString(text[written:])
	return out.String()
}

// maxName limits the bytes of an address before its at sign; RFC 5321 allows 64.
const maxName = 256

// nameBefore returns where the name before an at sign begins, not before from.
func nameBefore(text string, from, at int) int {
	from = max(from, at-maxName)
	for at > from {
		c, width := utf8.DecodeLastRuneInString(text[from:at])
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(".!#$%&'*+-/=?^_`{|}~", c) {
			break
		}
		at -= width
	}
	return at
}

// domainAfter returns the end of the domain that begins at from, or from if there is none.
func domainAfter(text string, from int) int {
	end := from + labelOf(text[from:])
	dotted := false
	for end > from && end < len(text) && text[end] == '.' {
		n := labelOf(text[end+1:])
		if n == 0 {
			break
		}
		end, dotted = end+1+n, true
	}
	if !dotted {
		return from
	}
	return end
}

// labelOf returns the length of the label of a domain that begins text.
func labelOf(text string) int {
	n := strings.IndexFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' && c != '_'
	})
	if n < 0 {
		return len(text)
	}
	return n
}

const (
	minDigits  = 7 // that are removed: national phone numbers have seven
	maxBetween = 2 // separators between two digits, as in "(030) 123"
	maxGroup   = 4 // letters in a group of an IBAN
)

// withoutNumbers replaces the long numbers in a text, except those that stay.
func withoutNumbers(text string, stays func(number string) bool) string {
	var out strings.Builder
	written := 0
	for i := 0; i < len(text); {
		if c := text[i]; (c < '0' || c > '9') && c < utf8.RuneSelf {
			i++
			continue
		}
		from := i
		for from > written && (text[from-1] == '+' || text[from-1] == '(') {
			from--
		}
		iban := startsIBAN(text[written:i])
		if iban {
			from = i - 2
		}
		end, digits := numberAt(text[i:], iban)
		if digits >= minDigits && (stays == nil || !stays(text[i:i+end])) {
			out.WriteString(text[written:from])
			out.WriteString(aNumber)
			written = i + end
		}
		i += end
	}
	if written == 0 {
		return text
	}
	out.WriteString(text[written:])
	return out.String()
}

// startsIBAN reports whether text ends in a word that can be the country of an IBAN.
func startsIBAN(text string) bool {
	n := len(text)
	return n >= 2 && isLetter(text[n-2]) && isLetter(text[n-1]) && (n == 2 || !isLetter(text[n-3]))
}

// numberAt reads the number that begins text and returns its end, and its digits; none if text begins
// with something else, which then ends there. The groups of an IBAN may have letters.
func numberAt(text string, iban bool) (end, digits int) {
	between := 0
	for at := 0; at < len(text); {
		c, width := utf8.DecodeRuneInString(text[at:])
		group := 0
		if iban {
			group = lettersIn(text[at:])
		}
		switch {
		case unicode.IsDigit(c):
			digits++
			between, end = 0, at+width
		case at == 0:
			return width, 0
		case between < maxBetween && separates(c):
			between++
		case group > 0 && group <= maxGroup:
			between, width = 0, group
		default:
			return end, digits
		}
		at += width
	}
	return end, digits
}

// separates reports whether a number may go on after c.
func separates(c rune) bool {
	return strings.ContainsRune(" -./()\t", c) || c >= utf8.RuneSelf && (unicode.In(c, unicode.White_Space, unicode.Pd, unicode.Cf) || c == '−')
}

// lettersIn returns the length of the ASCII letters that begin text.
func lettersIn(text string) int {
	n := 0
	for n < len(text) && isLetter(text[n]) {
		n++
	}
	return n
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

const (
	// maxNested is how deep JSON in strings of JSON is read, such as the arguments of tool calls.
	maxNested = 4
	// maxData is the longest string in bytes that is kept if it is encoded data.
	maxData = 512
)

// JSON returns a JSON value without personal data: the strings, names of members and numbers in it
// are redacted as texts, also those of JSON in strings. Images and other data are left out. What is
// not JSON becomes null.
func (r *Redactor) JSON(value []byte) []byte { return (&jsonRedactor{Redactor: r}).json(value) }

// filter is JSON for a filter.
func (r *Redactor) filter(value []byte) []byte {
	return (&jsonRedactor{Redactor: r, filter: true}).json(value)
}

func (j *jsonRedactor) json(value []byte) []byte {
	j.out = make([]byte, 0, len(value))
	reader := chat.NewReader(value)
	j.value(&reader, "")
	if reader.End() != nil {
		return []byte("null")
	}
	return j.out
}

type jsonRedactor struct {
	*Redactor
	out    []byte
	nested int
	filter bool // in a filter, whose member key is the name of an attribute
}

func (j *jsonRedactor) value(r *chat.Reader, name string) {
	switch r.Kind() {
	case chat.KindObject:
		j.out = append(j.out, '{')
		first := true
		r.Object(func(name string) {
			if !first {
				j.out = append(j.out, ',')
			}
			first = false
			j.string(name, "")
			j.out = append(j.out, ':')
			within := j.filter
			j.filter = within || name == "filters"
			j.value(r, name)
			j.filter = within
		})
		j.out = append(j.out, '}')
	case chat.KindArray:
		j.out = append(j.out, '[')
		r.Array(func(n int) {
			if n > 0 {
				j.out = append(j.out, ',')
			}
			j.value(r, "")
		})
		j.out = append(j.out, ']')
	case chat.KindString:
		j.string(chat.Unquote(r.Value()), name)
	default:
		raw := string(r.Value())
		if text := j.Text(raw); text != raw {
			raw = strconv.Quote(text)
		}
		j.out = append(j.out, raw...)
	}
}

// string writes a string that is the value of a member of that name.
func (j *jsonRedactor) string(text, name string) {
	switch {
	case name == "model":
		text = j.name(text)
	case len(text) > maxData && isData(text):
		text = fmt.Sprintf("(%d bytes of data)", len(text))
	case secrets.IsName(name) && !(j.filter && name == "key"):
		text = aKey
	case j.nested < maxNested && looksLikeJSON(text):
		text = string((&jsonRedactor{Redactor: j.Redactor, nested: j.nested + 1}).json([]byte(text)))
	default:
		text = j.Text(text)
	}
	j.out = append(chat.AppendEscaped(append(j.out, '"'), text), '"')
}

// looksLikeJSON reports whether a string holds a JSON object or array.
func looksLikeJSON(text string) bool {
	trimmed := strings.TrimSpace(text)
	return len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed))
}

// isData reports whether a long string is a data URL, or base64.
func isData(text string) bool {
	if strings.HasPrefix(text, "data:") {
		return true
	}
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && (c < '0' || c > '9') && strings.IndexByte("+/=-_\r\n", c) < 0 {
			return false
		}
	}
	return true
}
