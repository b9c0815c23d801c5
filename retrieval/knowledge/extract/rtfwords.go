package extract

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// word obeys a control word; n is its parameter, if it has one.
func (r *rtfReader) word(word string, n int, has bool) {
	first := !r.state.begun
	r.state.begun = true
	if first && r.destination(word) {
		return
	}
	if r.state.to == rtfNowhere {
		return
	}
	on := !has || n != 0
	switch word {
	case "par", "sect", "page":
		r.end()
	case "cell", "nestcell":
		if r.state.to == rtfBody {
			r.state.table = true
			r.paragraph()
			r.cells = append(r.cells, strings.TrimSpace(r.cell.String()))
			r.cell.Reset()
		}
	case "row", "nestrow":
		if r.state.to == rtfBody {
			r.endRow()
			r.state.table = false
		}
	case "pard":
		r.state.table, r.state.level = false, 0
	case "intbl":
		r.state.table = true
	case "outlinelevel":
		r.setLevel(n + 1)
	case "s":
		r.entry.number = n
		if r.state.to == rtfBody {
			r.state.level = r.styles[n]
		}
	case "line", "softline":
		r.write("\n")
	case "u":
		r.unicode(n)
	case "uc":
		r.state.unicode = min(max(n, 0), 100)
	case "ansicpg":
		r.ansi = cmp.Or(codePage(n), r.ansi)
	case "mac":
		r.ansi = charmap.Macintosh
	case "pc":
		r.ansi = charmap.CodePage437
	case "pca":
		r.ansi = charmap.CodePage850
	case "f", "fcharset":
		r.font(word, n)
	case "ftnalt":
		r.state.kind = "endnote"
	default:
		r.format(word, on)
	}
}

// end ends a paragraph.
func (r *rtfReader) end() {
	switch r.state.to {
	case rtfBody:
		r.paragraph()
	case rtfNote, rtfTitle:
		r.write(" ")
	}
}

// setLevel sets the level of a heading, from 1 on; that of body text is 10.
func (r *rtfReader) setLevel(level int) {
	if level > 9 || level < 1 {
		level = 0
	}
	if r.state.to == rtfStyles {
		r.entry.level = level
		return
	}
	r.state.level = level
}

// format obeys words for characters, and those that stand for one.
func (r *rtfReader) format(word string, on bool) {
	switch word {
	case "v", "deleted":
		r.flush()
		r.state.hidden = on
	case "super", "sub":
		r.endScript()
		if r.state.script = ""; on {
			r.state.script = word
		}
	case "nosupersub":
		r.endScript()
		r.state.script = ""
	case "plain":
		r.endScript()
		r.state.script, r.state.hidden, r.state.font = "", false, nil
	default:
		if text, ok := rtfCharacters[word]; ok {
			r.write(text)
		}
	}
}

// rtfCharacters are the words that stand for characters.
var rtfCharacters = map[string]string{
	"tab": "\t", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
	"emspace": " ", "enspace": " ", "qmspace": " ",
}

// rtfSkipped are the groups that are left out, besides those that begin with an asterisk.
const rtfSkipped = " colortbl pict object header headerl headerr headerf footer footerl footerr footerf fldinst bkmkstart bkmkend annotation " +
	"atnauthor atnid atnref xe tc tcn nonshppict listtable listoverridetable revtbl rsidtbl generator themedata datastore sp filetbl private " +
	"author operator company subject keywords doccomm comment category manager hlinkbase creatim revtim printim buptim ftnsep ftnsepc aftnsep aftnsepc "

// destination sets where the text of a group goes, by its first word, and reports whether the word
// names a group.
func (r *rtfReader) destination(word string) bool {
	switch word {
	case "fonttbl":
		r.state.to = rtfFonts
	case "stylesheet":
		r.state.to = rtfStyles
	case "title":
		if len(r.stack) > 0 && r.state.to == rtfNowhere && r.state.kind == "info" {
			r.state.to = rtfTitle
		}
	case "info":
		r.state.to, r.state.kind = rtfNowhere, word
	case "pntext", "listtext":
		if r.state.to == rtfBody {
			r.state.to = rtfMark
		}
	case "footnote":
		if r.state.to == rtfBody {
			r.state.to, r.state.kind = rtfNote, word
		}
	case "result":
		if r.state.kind == "object" {
			r.state.to, r.state.kind = rtfBody, ""
		}
	case "shpinst", "shp", "shptxt", "fldrslt":
	default:
		if !strings.Contains(rtfSkipped, " "+word+" ") && !(r.state.star && r.state.to != rtfStyles) {
			return false
		}
		r.state.to, r.state.kind = rtfNowhere, word
	}
	return true
}

// unicode writes a character by its number, of which those above 32767 are negative.
func (r *rtfReader) unicode(n int) {
	unit := uint16(n) //nolint:gosec // as it is written
	first := r.pending
	r.pending = 0
	switch {
	case utf16.IsSurrogate(rune(unit)) && first == 0:
		r.pending = unit
	case first != 0:
		r.write(string(utf16.DecodeRune(rune(first), rune(unit))))
	case unit != 0:
		r.write(string(rune(unit)))
	}
	r.state.begun = true
	r.skip = r.state.unicode
}

// font chooses a font, or sets its encoding in the font table.
func (r *rtfReader) font(word string, n int) {
	switch {
	case word == "fcharset" && r.state.to == rtfFonts:
		if page, ok := rtfCharsets[n]; ok && len(r.fonts) < maxRTFFonts {
			r.fonts[r.entry.number] = codePage(page)
		}
	case word == "f" && r.state.to == rtfFonts:
		r.entry.number = n
	case word == "f":
		r.state.font = r.fonts[n]
	}
}

// maxRTFFonts is the limit on fonts, and on styles of headings.
const maxRTFFonts = 10_000

// rtfCharsets are code pages by the numbers of character sets of Windows.
var rtfCharsets = map[int]int{
	77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250,
	254: 437, 255: 850,
}

// codePage returns the encoding of a code page of Windows; nil if it is unknown.
func codePage(n int) encoding.Encoding {
	name := "windows-" + strconv.Itoa(n)
	switch n {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 852:
		return charmap.CodePage852
	case 10000:
		return charmap.Macintosh
	case 65001:
		return unicode.UTF8
	case 866:
		name = "ibm866"
	case 932:
		name = "shift_jis"
	case 936:
		name = "gbk"
	case 949:
		name = "euc-kr"
	case 950:
		name = "big5"
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil
	}
	return e
}

// endEntry ends an entry of the style sheet: a style named "heading 1" is one of headings.
func (r *rtfReader) endEntry() {
	name := strings.ToLower(strings.Trim(r.name.String(), "; \t"))
	r.name.Reset()
	level := r.entry.level
	if rest, ok := strings.CutPrefix(name, "heading "); ok {
		if n, err := strconv.Atoi(rest); err == nil {
			level = n
		}
	}
	if level > 0 && level < 10 && len(r.styles) < maxRTFFonts {
		r.styles[r.entry.number] = level
	}
	r.entry = rtfEntry{}
}
