package extract

import "strings"

// syntax is what must be known of a language to distinguish code from strings and comments.
type syntax struct {
	comment  string // start of a comment that extends to the end of the line
	blocks   bool   // has /* */
	triple   bool   // has """ and '''
	template bool   // has ` for multi-line strings
	brackets bool   // a line inside brackets continues the line before
	quotes   string // start of a string that ends on the same line
}

func syntaxOf(lang string) syntax {
	switch lang {
	case "py":
		return syntax{comment: "#", triple: true, brackets: true, quotes: `"'`}
	case "rb", "pl", "r", "ex", "makefile", "dockerfile", "nim", "jl":
		return syntax{comment: "#", triple: lang == "ex" || lang == "jl", quotes: `"'`}
	case "sh", "ps1", "tf", "graphql":
		return syntax{comment: "#", brackets: lang != "sh", quotes: `"'`}
	case "sql", "lua", "hs":
		return syntax{comment: "--", blocks: lang == "sql", brackets: lang == "sql", quotes: `"`}
	case "clj":
		return syntax{comment: ";", brackets: true, quotes: `"`}
	case "erl":
		return syntax{comment: "%", quotes: `"`}
	case "rs": // ' also begins a lifetime
		return syntax{comment: "//", blocks: true, brackets: true, quotes: `"`}
	case "js", "ts", "go":
		return syntax{comment: "//", blocks: true, template: true, brackets: true, quotes: `"'`}
	case "kt", "swift", "scala", "java", "groovy", "dart":
		return syntax{comment: "//", blocks: true, triple: true, brackets: true, quotes: `"`}
	}
	return syntax{comment: "//", blocks: true, brackets: true, quotes: `"'`}
}

// scan finds the lines, with the properties that do not depend on other lines.
func (o *outliner) scan() {
	s := syntaxOf(o.lang)
	in := "" // end of the open string or comment; "" if none is open
	at := 0
	for text := range strings.Lines(o.text) {
		l := line{start: at, end: at + len(text), indent: -1, inside: in != ""}
		at = l.end
		if trimmed := strings.TrimSpace(text); trimmed != "" {
			l.indent = indentOf(text)
			l.kind = kindOf(o.lang, s, trimmed)
			if in != "" && strings.HasPrefix(in, "*/") {
				l.kind, l.inside = leadLine, false
			}
			in = s.after(text, in)
		}
		o.lines = append(o.lines, l)
	}
}

// tabWidth is how many columns a tab indents.
const tabWidth = 4

func indentOf(text string) (n int) {
	for _, c := range text {
		switch c {
		case ' ':
			n++
		case '\t':
			n += tabWidth
		default:
			return n
		}
	}
	return n
}

// kindOf returns the kind of a line, by its beginning.
func kindOf(lang string, s syntax, trimmed string) lineKind {
	switch {
	case strings.HasPrefix(trimmed, s.comment), s.blocks && strings.HasPrefix(trimmed, "/*"), strings.HasPrefix(trimmed, "@"):
		return leadLine
	case lang == "rs" && strings.HasPrefix(trimmed, "#"), lang == "cs" && strings.HasPrefix(trimmed, "["), lang == "php" && strings.HasPrefix(trimmed, "#"),
		strings.HasPrefix(trimmed, "template<"), strings.HasPrefix(trimmed, "template <"):
		return leadLine
	case strings.IndexByte("})]", trimmed[0]) >= 0 && s.brackets, trimmed[0] == '}', trimmed[0] == '{':
		return closingLine
	}
	word, _, _ := strings.Cut(trimmed, " ")
	switch strings.TrimRight(word, ";:") {
	case "end", "fi", "done", "esac", "else", "elif", "elsif", "except", "finally", "catch", "rescue", "ensure", "then", "do":
		return closingLine
	}
	return plainLine
}

// after returns the end of the string or comment that is open after a line; "" if none is. in is
// the same for the line before.
func (s syntax) after(text, in string) string {
	for i := 0; i < len(text); {
		rest := text[i:]
		if in != "" {
			at := strings.Index(rest, in)
			if at < 0 {
				return in
			}
			i += at + len(in)
			in = ""
			continue
		}
		switch {
		case s.comment != "" && strings.HasPrefix(rest, s.comment):
			return ""
		case s.blocks && strings.HasPrefix(rest, "/*"):
			in, i = "*/", i+2
		case s.triple && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, "'''")):
			in, i = rest[:3], i+3
		case s.template && rest[0] == '`':
			in, i = "`", i+1
		case strings.IndexByte(s.quotes, rest[0]) >= 0:
			i += quoted(rest)
		default:
			i++
		}
	}
	return in
}

// quoted returns the length of the string that text begins with.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 1 // it does not end on the line, so it is an apostrophe
}
