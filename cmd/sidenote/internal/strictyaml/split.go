package strictyaml

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// A piece is text that is parsed as a document of its own.
type piece struct {
	key   string // of the root, whose value it continues; "" for the rest of the text
	text  string
	lines []span // sorted
}

// A span maps lines of a piece to the whole text: lines starting at from (counted from 1) are add
// lines further down there.
type span struct{ from, add int }

// locate gives tokens the lines that they have in the whole text.
func (p piece) locate(tokens token.Tokens) {
	for _, t := range tokens {
		i, exact := slices.BinarySearchFunc(p.lines, t.Position.Line, func(s span, line int) int { return s.from - line })
		if !exact {
			i--
		}
		if i >= 0 {
			t.Position.Line += p.lines[i].add
		}
	}
}

// split splits a text between the entries of maps that are values of the root, into pieces of size
// bytes or slightly more. What is not plainly a block of such maps stays whole. The first piece is
// the rest, with the beginnings of those maps.
func split(text string, size int) []piece {
	whole := []piece{{text: text, lines: []span{{1, 0}}}}
	if len(text) < 2*size || strings.Contains(text, "\r") {
		return whole
	}
	s := splitter{text: text, size: size, keys: map[string]bool{}}
	for start := 0; start < len(text); {
		end := len(text)
		if n := strings.IndexByte(text[start:], '\n'); n >= 0 {
			end = start + n + 1
		}
		s.line++
		if !s.next(start, strings.TrimRight(text[start:end], " \t\r\n")) {
			return whole
		}
		start = end
	}
	s.close(len(text))
	return s.pieces()
}

// A splitter walks over the lines of a text.
type splitter struct {
	text string
	size int
	line int // from 1
	keys map[string]bool

	key    string // key of the root whose value is being read; "" if that is not a block
	indent int    // of its entries; 0: none was read yet
	begun  int    // start of the current piece
	first  int    // its line
	cuts   []cut
}

// A cut is a piece before its text is taken out.
type cut struct {
	key        string
	start, end int
	line, next int // of start and end
}

// next reads a line. It returns false if the text must stay whole.
func (s *splitter) next(start int, line string) bool {
	rest := strings.TrimLeft(line, " ")
	indent := len(line) - len(rest)
	name, value, entry := plainKey(rest)
	switch {
	case rest == "" || rest[0] == '#':
		return true
	case indent == 0:
		s.close(start)
		s.key = ""
		if rest == "-" || strings.HasPrefix(rest, "- ") {
			return true // a list need not be indented
		}
		if !entry || s.keys[name] {
			return false
		}
		s.keys[name] = true
		if value == "" || value[0] == '#' {
			s.key, s.indent = name, 0
		}
		return true
	case s.key == "":
		return true
	case s.indent == 0 && !entry:
		s.key = "" // a list, or a text
		return true
	case s.indent == 0:
		s.indent, s.begun, s.first = indent, start, s.line
		return true
	case indent > s.indent:
		return true
	case indent < s.indent || !entry:
		return false
	}
	if start-s.begun >= s.size {
		s.close(start)
		s.begun, s.first = start, s.line
	}
	return true
}

// close ends the current piece. A block of one small piece stays with the rest.
func (s *splitter) close(end int) {
	if s.key != "" && s.indent > 0 && (end-s.begun >= s.size || len(s.cuts) > 0 && s.cuts[len(s.cuts)-1].key == s.key) {
		next := s.line
		if end == len(s.text) {
			next++
		}
		s.cuts = append(s.cuts, cut{s.key, s.begun, end, s.first, next})
	}
}

// pieces takes the cuts out of the text.
func (s *splitter) pieces() []piece {
	rest := piece{lines: []span{{1, 0}}}
	all := make([]piece, 1, 1+len(s.cuts))
	var kept strings.Builder
	from, gone := 0, 0 // gone counts the lines of the cuts
	for _, c := range s.cuts {
		kept.WriteString(s.text[from:c.start])
		from, gone = c.end, gone+c.next-c.line
		if rest.lines[len(rest.lines)-1].from == c.next-gone {
			rest.lines = rest.lines[:len(rest.lines)-1] // of the previous cut, which ends where this one begins
		}
		rest.lines = append(rest.lines, span{c.next - gone, gone})
		all = append(all, piece{c.key, s.text[c.start:c.end], []span{{1, c.line - 1}}})
	}
	kept.WriteString(s.text[from:])
	rest.text = kept.String()
	all[0] = rest
	return all
}

// plainKey splits a line that starts with a key of plain letters into the key and what follows its
// colon.
func plainKey(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	if !ok || name == "" || name[0] == '-' || value != "" && value[0] != ' ' {
		return "", "", false
	}
	for _, b := range []byte(name) {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '-' || b == '.') {
			return "", "", false
		}
	}
	return name, strings.TrimLeft(value, " "), true
}
