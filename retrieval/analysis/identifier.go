package analysis

import (
	"math"
	"strings"
)

// An identifier is several words that name one thing, such as PAY-4021 or src/main.rs. It is a
// token of its own, after those of its words, so that texts with the whole identifier rank above
// texts with its words only.
//
// Words are joined by - :: + @ into names, and names by / into paths. Most such text is prose, as
// in long-term, and/or, km/h. Identifiers are
//
//   - names with :: or @: Vec::new, ann@example.org;
//   - names with hyphens whose last word has a digit, except ranges of numbers, or whose
//     first word is a version: CVE-2024-3094, UTF-8, 2024-01-31, 1.2.0-rc;
//   - keys with + between them, or with hyphens after Ctrl: Ctrl+Shift+P, Ctrl-C;
//   - options: names after two hyphens that no word precedes, and up to maxShort letters
//     after one hyphen: --no-verify, -rf;
//   - one or two letters before ++ or #, and a word between double underscores: C++, __init__;
//   - two to four letters and a number of four digits or more that is no year: ISO 9001;
//   - paths that begin with a slash, have three names or end in a file with an extension:
//     /etc/hosts, src/main.rs.
type identifier struct{ start, end int }

// maxShort is the maximum length of an option after one hyphen, in bytes. A longer word is prose,
// with the hyphen as a dash.
const maxShort = 3

// never is the end of an identifier that does not exist.
const never = math.MaxInt

// identify looks for identifiers whose first word is the one from start to end. Each word is read
// at most once more for a name, and once for a path.
func (s *scanner) identify(start, end int) {
	if !joins(s.byte(end)) && !joins(s.byte(start-1)) {
		return // most words
	}
	if start >= s.nameSeen {
		s.startName(start, end)
	}
	if start >= s.pathSeen && s.byte(s.nameSeen) == '/' {
		s.startPath(start, end)
	}
	s.due = min(s.name.end, s.path.end)
}

// identifySpaced looks for an identifier whose number is the word from start to end.
func (s *scanner) identifySpaced(start, end int) {
	number := s.text[start:end]
	if len(number) < 4 || strings.Trim(number, "0123456789") != "" || len(number) == 4 && (number[:2] == "19" || number[:2] == "20") {
		return
	}
	from := start - 1
	for from > 0 && start-1-from <= 4 && asciiLetter(s.text[from-1]) {
		from--
	}
	letters := start - 1 - from
	if letters < 2 || letters > 4 || s.text[start-1] != ' ' || s.name.end != never || from > 0 && !opens(s.text[:from]) {
		return
	}
	if isStop(strings.ToLower(s.text[from : start-1])) {
		return
	}
	s.name = identifier{from, end}
	s.due = min(s.name.end, s.path.end)
}

// byte returns the byte at i, 0 outside of the text.
func (s *scanner) byte(i int) byte {
	if uint(i) < uint(len(s.text)) {
		return s.text[i]
	}
	return 0
}

// joins reports whether c may precede, join or follow the words of an identifier.
func joins(c byte) bool {
	switch c {
	case '-', '+', '@', ':', '#', '_', '/':
		return true
	}
	return false
}

// identifier returns the identifier that ends at pos; if there are two, the one that began last.
func (s *scanner) identifier() string {
	id := &s.name
	if s.path.end < s.name.end {
		id = &s.path
	}
	tok := s.text[id.start:id.end]
	s.start = id.start
	*id = identifier{end: never}
	s.due = min(s.name.end, s.path.end)
	return tok
}

// startName looks for a name whose first word is the one from start to end.
func (s *scanner) startName(start, end int) {
	n := nameScan{scanner: s, start: start, first: end, end: end, last: start}
	for n.join() {
	}
	s.nameSeen = n.end
	if from, to, ok := n.identifier(); ok && to-from <= maxTerm {
		s.name = identifier{from, to}
	}
}

// A nameScan scans the words of a name.
type nameScan struct {
	*scanner
	start, first int // the first word
	last, end    int // the last word
	words        int // after the first
	hyphens      int // joiners by kind
	pluses       int
	others       int
}

// join reads a joiner and the following word, if both are there.
func (n *nameScan) join() bool {
	rest := n.text[n.end:]
	size, count := 1, &n.others
	switch {
	case strings.HasPrefix(rest, "-"):
		count = &n.hyphens
	case strings.HasPrefix(rest, "+"):
		count = &n.pluses
	case strings.HasPrefix(rest, "::"):
		size = 2
	case strings.HasPrefix(rest, "@"):
	default:
		return false
	}
	if !n.startsWord(n.end + size) {
		return false
	}
	*count++
	n.words++
	n.last = n.end + size
	n.end, _ = n.wordAt(n.last)
	return true
}

// identifier returns the bounds of the name if it is an identifier.
func (n *nameScan) identifier() (start, end int, ok bool) {
	before, after := n.text[:n.start], n.text[n.end:]
	first, last := n.text[n.start:n.first], n.text[n.last:n.end]
	if dashes := len(before) - len(strings.TrimRight(before, "-")); dashes == 1 && n.end-n.start <= maxShort || dashes == 2 {
		if n.hyphens == n.words && !digits(first[:1]) && opens(before[:len(before)-dashes]) {
			return n.start - dashes, n.end, true
		}
	}
	switch {
	case n.words == 0 && strings.HasSuffix(before, "__") && strings.HasPrefix(after, "__"):
		return n.start - 2, n.end + 2, true
	case n.words == 0 && len(first) <= 2 && !digits(first) && strings.HasPrefix(after, "++"):
		return n.start, n.end + 2, true
	case n.words == 0 && len(first) <= 2 && !digits(first) && strings.HasPrefix(after, "#"):
		return n.start, n.end + 1, !n.startsWord(n.end + 1)
	case n.others > 0:
		ok = true
	case n.pluses > 0:
		ok = n.hyphens == 0 && n.words < 4 && len(first) > 1 && !digits(first[:1])
	case n.hyphens > 0:
		span := n.words == 1 && digits(first) && digits(last)
		ok = hasDigit(last) && !span || strings.Count(first, ".") > 1 && hasDigit(first) || strings.EqualFold(first, "ctrl")
	}
	return n.start, n.end, ok
}

// startPath looks for a path whose first name begins with the word from start to end.
func (s *scanner) startPath(start, end int) {
	names, last := 0, start
	for {
		names++
		n := nameScan{scanner: s, start: last, first: end, end: end, last: last}
		for n.join() {
		}
		s.pathSeen, last = n.end, n.last
		at := n.end + 1
		if !strings.HasPrefix(s.text[n.end:], "/") {
			break
		}
		for range 2 { // .config, __init__.py
			if at < len(s.text) && (s.text[at] == '.' || s.text[at] == '_') {
				at++
			}
		}
		if !s.startsWord(at) {
			break
		}
		last = at
		end, _ = s.wordAt(at)
	}
	if names < 2 || s.pathSeen-start > maxTerm {
		return
	}
	if names > 2 || rooted(s.text[:start]) || hasExtension(s.text[last:s.pathSeen]) {
		s.path = identifier{start, s.pathSeen}
	}
}

// rooted reports whether before ends with the start of a path: /, ~/, ./ or ../.
func rooted(before string) bool {
	before, ok := strings.CutSuffix(strings.TrimRight(before, "._"), "/")
	return ok && opens(strings.TrimRight(before, ".~"))
}

// opens reports whether an option or a path may follow before, which must not end with a word.
func opens(before string) bool {
	if before == "" {
		return true
	}
	c := before[len(before)-1]
	return c <= ' ' || c >= 0x80 || strings.IndexByte("([{|`'\"=,", c) >= 0
}

// hasExtension reports whether a word ends in a dot and letters.
func hasExtension(word string) bool {
	i := strings.LastIndexByte(word, '.')
	return i >= 0 && !digits(word[i+1:i+2])
}

func hasDigit(s string) bool {
	for i := range len(s) {
		if isDigit(s[i]) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits reports whether s consists of digits and dots only.
func digits(s string) bool { return strings.Trim(s, "0123456789.") == "" }

// appendIdentifier appends the terms of an identifier: PAY-4021 is also spelled PAY4021, and
// Ctrl-C equals Ctrl+C.
func appendIdentifier(dst []string, tok string) []string {
	if letters, number, ok := strings.Cut(tok, " "); ok {
		return append(dst, strings.ToLower(letters+number))
	}
	dst = appendJoined(dst, tok, "-")
	term := strings.ToLower(tok)
	if strings.HasPrefix(term, "ctrl-") {
		term = strings.ReplaceAll(term, "-", "+")
	}
	return append(dst, term)
}

// versionNumber returns the number of a version such as v1.2.3.
func versionNumber(tok string) (number string, ok bool) {
	if len(tok) > maxTerm || tok[0]|0x20 != 'v' || !digits(tok[1:]) || strings.Count(tok, ".") < 2 {
		return "", false
	}
	return tok[1:], true
}

// appendJoined appends the term of a name that is also written without its joiner, as CVE-2024-3094
// or ERR_104: it consists of letters and digits, and its last part is a number.
func appendJoined(dst []string, name, joiner string) []string {
	at := strings.LastIndex(name, joiner)
	if at <= 0 || at == len(name)-1 || strings.Trim(name[at+1:], "0123456789") != "" || !asciiLetter(name[0]) {
		return dst
	}
	joined := strings.ReplaceAll(name, joiner, "")
	for i := range len(joined) {
		if !asciiLetter(joined[i]) && !isDigit(joined[i]) {
			return dst
		}
	}
	return append(dst, strings.ToLower(joined))
}

func asciiLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// mostUnit is the length of the longest unit that is written together with its number, as in 500mg.
const mostUnit = 3

// numbered cuts a word into its letters and its number, which are often written apart: ISO9001,
// 500mg. The number of 0x80070020 is hexadecimal.
func numbered(word string) (letters, number string, ok bool) {
	first := word[0]
	if len(word) > maxTerm || isDigit(first) == isDigit(word[len(word)-1]) && first != '0' || !isDigit(first) && !asciiLetter(first) {
		return "", "", false // most words
	}
	if isHex(word) {
		return "", word[2:], true
	}
	cut := 1
	for cut < len(word) && isDigit(word[cut]) == isDigit(first) {
		cut++
	}
	letters, number = word[:cut], word[cut:]
	if isDigit(first) {
		if letters, number = number, letters; len(letters) > mostUnit || isOrdinal(letters) {
			return "", "", false
		}
	}
	for i := range len(letters) {
		if !asciiLetter(letters[i]) {
			return "", "", false
		}
	}
	return letters, number, letters != "" && strings.Trim(number, "0123456789") == ""
}

// isHex reports whether a word is a hexadecimal number after 0x.
func isHex(word string) bool {
	return len(word) > 2 && len(word) <= maxTerm && word[0] == '0' && word[1]|0x20 == 'x' && strings.Trim(word[2:], "0123456789abcdefABCDEF") == ""
}

// isOrdinal reports whether letters after a number are an ending, as in 10th and 1990s.
func isOrdinal(letters string) bool {
	switch strings.ToLower(letters) {
	case "st", "nd", "rd", "th", "s":
		return true
	}
	return false
}
