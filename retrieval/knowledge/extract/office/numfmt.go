package office

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A formatReader reads the number formats of cells.
type formatReader struct {
	codes map[int]string // own formats of the file
	ids   []int          // by the number of a cell's style
	cells bool           // in cellXfs
}

func (r *formatReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		id, _ := strconv.Atoi(value(t, "numFmtId"))
		switch t.Name.Local {
		case "numFmt":
			if code := value(t, "formatCode"); len(r.codes) < maxStyles && len(code) <= maxCode {
				r.codes[id] = code
			}
		case "cellXfs":
			r.cells = true
		case "xf":
			if r.cells && len(r.ids) < maxCellStyles {
				r.ids = append(r.ids, id)
			}
		}
	case xml.EndElement:
		if t.Name.Local == "cellXfs" {
			r.cells = false
		}
	}
	return nil
}

const (
	maxCode       = 255 // bytes of a format, as in Excel
	maxCellStyles = 65_536
)

// formats returns the formats of cells, by the number of their style.
func (r *formatReader) formats() []numberFormat {
	parsed := map[int]numberFormat{}
	list := make([]numberFormat, len(r.ids))
	for i, id := range r.ids {
		f, known := parsed[id]
		if !known {
			code, own := r.codes[id]
			if !own {
				code = builtIn(id)
			}
			f = parseFormat(code)
			parsed[id] = f
		}
		list[i] = f
	}
	return list
}

// builtIn returns the format with a number that every file has (ECMA-376 part 1, 18.8.30). Those
// that depend on the reader's country are dates as in ISO 8601, and amounts without a currency.
func builtIn(id int) string {
	switch id {
	case 1:
		return "0"
	case 2:
		return "0.00"
	case 3, 5, 6, 37, 38, 41, 42:
		return "#,##0"
	case 4, 7, 8, 39, 40, 43, 44:
		return "#,##0.00"
	case 9:
		return "0%"
	case 10:
		return "0.00%"
	case 11, 48:
		return "0.00E+00"
	case 14, 27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58:
		return "yyyy-mm-dd"
	case 15:
		return "d-mmm-yy"
	case 16:
		return "d-mmm"
	case 17:
		return "mmm-yy"
	case 18:
		return "h:mm AM/PM"
	case 19:
		return "h:mm:ss AM/PM"
	case 20, 32, 34, 55:
		return "h:mm"
	case 21, 33, 35, 56:
		return "h:mm:ss"
	case 22:
		return "yyyy-mm-dd h:mm"
	case 45, 47:
		return "mm:ss"
	case 46:
		return "[h]:mm:ss"
	}
	return ""
}

// A numberFormat has a section for positive numbers, and maybe others for negative ones and zero.
type numberFormat []section

// A section is a list of literal texts and places.
type section struct {
	parts []part
	date  bool
}

// A part is a literal, or a place for digits or for a part of a date. Places are a run of one of the
// characters 0#?.,%E@ymdhs, in lower case, "[h]" and so on for elapsed time, or "am/pm".
type part struct {
	text    string
	literal bool
}

// parseFormat parses a format code. One without sections is General.
func parseFormat(code string) numberFormat {
	if strings.EqualFold(code, "general") || code == "" {
		return nil
	}
	p := formatParser{code: code}
	for p.at < len(code) {
		if code[p.at] == ';' {
			p.done, p.section = append(p.done, p.section), section{}
			p.at++
		} else if !p.quoted() {
			p.place()
		}
	}
	return append(p.done, p.section)
}

// A formatParser parses a format code from the position at.
type formatParser struct {
	code    string
	at      int
	done    numberFormat
	section section
}

// add adds a literal, or one character of a place.
func (p *formatParser) add(text string, literal bool) {
	parts := p.section.parts
	if n := len(parts); n > 0 && parts[n-1].literal == literal && (literal || text == parts[n-1].text[:1]) {
		parts[n-1].text += text
		return
	}
	p.section.parts = append(parts, part{text, literal})
}

// quoted parses what begins with a quote, an escape or a bracket, if that is next.
func (p *formatParser) quoted() bool {
	rest := p.code[p.at+1:]
	_, next := utf8.DecodeRuneInString(rest)
	switch p.code[p.at] {
	case '"':
		text, _, _ := strings.Cut(rest, `"`)
		p.add(text, true)
		p.at += len(text) + 2
	case '\\':
		p.add(rest[:next], true)
		p.at += 1 + next
	case '_': // a space as wide as the next character
		p.add(" ", true)
		p.at += 1 + next
	case '*': // the next character fills the cell
		p.at += 1 + next
	case '[':
		text, _, _ := strings.Cut(rest, "]")
		p.bracket(text)
		p.at += len(text) + 2
	default:
		return false
	}
	return true
}

// bracket handles a text in brackets: a currency with a country, or elapsed time. Colors and
// conditions are ignored.
func (p *formatParser) bracket(text string) {
	if symbol, ok := strings.CutPrefix(text, "$"); ok {
		symbol, _, _ = strings.Cut(symbol, "-")
		p.add(symbol, true)
		return
	}
	text = strings.ToLower(text)
	if text != "" && strings.Trim(text, text[:1]) == "" && strings.ContainsAny(text, "hms") {
		p.section.parts, p.section.date = append(p.section.parts, part{text: "[" + text + "]"}), true
	}
}

// place parses a place, or a character that stands for itself.
func (p *formatParser) place() {
	const longest = len("general")
	rest := strings.ToLower(p.code[p.at:min(len(p.code), p.at+longest)])
	size := 1
	switch {
	case strings.HasPrefix(rest, "general"):
		p.add("@", false)
		size = len("general")
	case strings.HasPrefix(rest, "am/pm"), strings.HasPrefix(rest, "a/p"):
		p.section.parts, p.section.date = append(p.section.parts, part{text: "am/pm"}), true
		size = len("a/p")
		if rest[1] == 'm' {
			size = len("am/pm")
		}
	case strings.HasPrefix(rest, "e+") || strings.HasPrefix(rest, "e-"):
		p.add("E", false)
		size = len("e+")
	case strings.IndexByte("ymdhs", rest[0]) >= 0:
		p.add(rest[:1], false)
		p.section.date = true
	default:
		c := p.code[p.at : p.at+1]
		p.add(c, !strings.Contains("0#?.,%@", c))
	}
	p.at += size
}

// format returns a number as it is shown.
func (f numberFormat) format(raw string, date1904 bool) string {
	v, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || len(f) == 0 {
		return general(raw)
	}
	s, sign := f[0], ""
	switch {
	case v < 0 && len(f) > 1:
		s, v = f[1], -v
	case v == 0 && len(f) > 2:
		s = f[2]
	case v < 0 && !s.date:
		sign, v = "-", -v
	}
	if s.date {
		return s.dateText(v, date1904, raw)
	}
	text := s.number(v)
	if sign != "" && strings.ContainsAny(text, "123456789") {
		text = sign + text
	}
	return strings.TrimSpace(text)
}

// general returns a number with at most the 15 digits that a spreadsheet has.
func general(raw string) string {
	v, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return raw
	}
	const digits, large, small = 15, 1e20, 1e-9
	format := byte('f')
	if abs := math.Abs(v); abs >= large || abs != 0 && abs < small {
		format = 'E'
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil {
		return raw
	}
	return strconv.FormatFloat(rounded, format, -1, 64)
}

// number returns a number, which is not negative, in the format of a section.
func (s section) number(v float64) string {
	p := s.places()
	if p.text {
		return general(strconv.FormatFloat(v, 'f', -1, 64))
	}
	v *= p.scale
	if p.exponent {
		return s.fill(strings.Replace(strconv.FormatFloat(v, 'E', p.decimals, 64), "E+0", "E+", 1), p)
	}
	const precise = 1e9
	if v < precise {
		v += v * 1e-15 // what is half in decimal digits may be a little less in binary ones
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', min(p.decimals, maxDecimals), 64), ".")
	for len(fraction) > p.minDecimals && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1]
	}
	whole = strings.TrimLeft(whole, "0")
	whole = strings.Repeat("0", max(0, p.minWhole-len(whole))) + whole
	if p.grouped {
		whole = grouped(whole)
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return s.fill(whole, p)
}

// maxDecimals is the limit on digits after the point, as in Excel.
const maxDecimals = 30

// places is what a section says about digits.
type places struct {
	minWhole, decimals, minDecimals int
	grouped, exponent, text         bool
	scale                           float64
	last                            int // the last part with a place for digits
}

func (s section) places() places {
	p := places{scale: 1, last: -1}
	point := false
	for i, part := range s.parts {
		n := len(part.text)
		switch {
		case part.literal:
			if part.text == "/" && p.last >= 0 {
				p.text = true // a fraction
			}
			continue
		case part.text == "@":
			p.text = true
		case part.text[0] == '.':
			point = true
		case part.text[0] == 'E':
			p.exponent = true
		case part.text[0] == '%':
			p.scale *= math.Pow(100, float64(min(n, 4)))
			continue
		case part.text[0] == ',':
			if s.digitsAfter(i) {
				p.grouped = !point
			} else {
				p.scale /= math.Pow(1000, float64(min(n, 4)))
			}
		case p.exponent:
		case point:
			p.decimals += n
			if part.text[0] == '0' {
				p.minDecimals = p.decimals
			}
		case part.text[0] == '0':
			p.minWhole += n
		}
		p.last = i
	}
	return p
}

// digitsAfter reports whether there are places for digits after part i.
func (s section) digitsAfter(i int) bool {
	for _, p := range s.parts[i+1:] {
		if !p.literal && strings.IndexByte("0#?", p.text[0]) >= 0 {
			return true
		}
	}
	return false
}

// fill returns the literals of a section with digits in their place. Literals between digits, as in
// 000-0000, are put between them from the end.
func (s section) fill(digits string, p places) string {
	if p.last < 0 {
		return s.literals(0, len(s.parts))
	}
	first := 0
	for s.parts[first].literal {
		first++
	}
	var out string
	for i := p.last; i >= first; i-- {
		part := s.parts[i]
		switch {
		case part.literal:
			out = part.text + out
		case p.exponent || p.grouped || p.decimals > 0 || strings.IndexByte("0#?", part.text[0]) < 0:
		default:
			n := min(len(part.text), len(digits))
			digits, out = digits[:len(digits)-n], digits[len(digits)-n:]+out
		}
	}
	return s.literals(0, first) + digits + out + s.literals(p.last+1, len(s.parts))
}

func (s section) literals(from, to int) string {
	var b strings.Builder
	for _, p := range s.parts[from:to] {
		if p.literal || p.text[0] == '%' {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// grouped returns digits with a comma before each three.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// dateText returns the date of a serial number, which counts days.
func (s section) dateText(v float64, date1904 bool, raw string) string {
	const maxSerial, offset1904 = 2_958_466, 1462 // the year 10000
	if date1904 {
		v += offset1904
	}
	if v < 0 || v >= maxSerial {
		return general(raw)
	}
	seconds := math.Round(v * 86400)
	at := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
	if v < 60 { // Excel has a 29 February 1900
		at = at.AddDate(0, 0, 1)
	}
	clock := false
	for _, p := range s.parts {
		clock = clock || p.text == "am/pm"
	}
	var b strings.Builder
	for i, p := range s.parts {
		switch {
		case p.literal:
			b.WriteString(p.text)
		case p.text == "." && i+1 < len(s.parts) && strings.HasPrefix(s.parts[i+1].text, "0"): // fractions of a second
		case p.text == "am/pm":
			b.WriteString(at.Format("PM"))
		case p.text[0] == '[':
			unit := map[byte]float64{'h': 3600, 'm': 60, 's': 1}[p.text[1]]
			b.WriteString(padded(int(seconds/unit), len(p.text)-2))
		case p.text[0] == 'm' && s.minutes(i):
			b.WriteString(padded(at.Minute(), len(p.text)))
		default:
			b.WriteString(datePart(at, p.text, clock))
		}
	}
	return strings.TrimSpace(b.String())
}

// minutes reports whether part i, a run of m, is minutes rather than months: it comes after hours or
// before seconds.
func (s section) minutes(i int) bool {
	for j := i - 1; j >= 0; j-- {
		if p := s.parts[j]; !p.literal {
			if strings.Contains(p.text, "h") {
				return true
			}
			break
		}
	}
	for _, p := range s.parts[i+1:] {
		if !p.literal {
			return strings.Contains(p.text, "s")
		}
	}
	return false
}

// datePart returns a part of a date; text is its place.
func datePart(at time.Time, text string, clock bool) string {
	n := len(text)
	switch text[0] {
	case 'y':
		if n <= 2 {
			return at.Format("06")
		}
		return at.Format("2006")
	case 'm':
		switch n {
		case 3:
			return at.Format("Jan")
		case 4:
			return at.Format("January")
		case 5:
			return at.Format("Jan")[:1]
		}
		return padded(int(at.Month()), n)
	case 'd':
		switch n {
		case 3:
			return at.Format("Mon")
		case 4:
			return at.Format("Monday")
		}
		return padded(at.Day(), n)
	case 'h':
		hour := at.Hour()
		if clock {
			hour = (hour+11)%12 + 1
		}
		return padded(hour, n)
	case 's':
		return padded(at.Second(), n)
	case '.', ',':
		return text
	}
	return "" // fractions of a second
}

// padded returns a number with at least n digits, of at most two.
func padded(v, n int) string {
	text := strconv.Itoa(v)
	if n >= 2 && len(text) < 2 {
		text = "0" + text
	}
	return text
}
