package extract

import (
	"strconv"
	"strings"

	"golang.org/x/text/encoding"
)

// An rtfReader reads Rich Text Format 1.9.1. Headings are paragraphs with an outline level or with a
// style named "heading 1" and so on, lists have the marks that are shown, and notes stand in brackets
// where they are marked. Hidden and deleted text, headers and footers are left out.
type rtfReader struct {
	raw   []byte
	at    int
	state rtfState
	stack []rtfState

	ansi   encoding.Encoding
	fonts  map[int]encoding.Encoding // by number
	styles map[int]int               // levels of headings, by number
	bytes  []byte                    // in the encoding of bytesIn
	skip   int                       // characters that stand for the one before, in other readers

	entry   rtfEntry // of the font table or style sheet
	title   strings.Builder
	text    strings.Builder // of the paragraph
	raised  strings.Builder // text that is not on the line
	mark    strings.Builder // of the item
	note    strings.Builder
	name    strings.Builder // of a style
	cells   []string
	rows    [][]string
	cell    strings.Builder
	out     strings.Builder
	heads   []heading
	pending uint16 // the first half of a surrogate pair
}

// An rtfEntry is an entry of the font table or the style sheet.
type rtfEntry struct{ number, level int }

// An rtfState is what a group inherits and its end restores.
type rtfState struct {
	to      rtfTarget
	hidden  bool
	script  string // super or sub
	unicode int    // characters that stand for one by its number
	font    encoding.Encoding
	level   int // of a heading; 0 if the paragraph is none
	table   bool
	star    bool // the group is left out unless its word is known
	begun   bool // the group has a word
	kind    string
}

// An rtfTarget is where text goes.
type rtfTarget uint8

const (
	rtfBody rtfTarget = iota
	rtfNowhere
	rtfTitle
	rtfMark
	rtfNote
	rtfFonts
	rtfStyles
)

// maxRTFMark is the length in bytes up to which what stands before a tab is the mark of an item.
const maxRTFMark = 5

// maxRTFDepth is the nesting limit of groups.
const maxRTFDepth = 500

var (
	errNoRTF   = Brokenf("it is no RTF")
	errTornRTF = Brokenf("it ends too early")
)

// readRTF returns a document in RTF. Of one that ends too early, what stands before is returned too.
func readRTF(raw []byte) (Document, error) {
	if !strings.HasPrefix(string(raw[:min(len(raw), 5)]), `{\rtf`) {
		return Document{}, errNoRTF
	}
	r := &rtfReader{raw: raw, ansi: codePage(1252), fonts: map[int]encoding.Encoding{}, styles: map[int]int{}, state: rtfState{unicode: 1}}
	err := r.read()
	if err != nil && err != errTornRTF { //nolint:errorlint // it is not wrapped
		return Document{}, err
	}
	r.paragraph()
	r.endTable()
	text, name := titled(r.out.String(), r.heads, oneLine(r.title.String()))
	return Document{Name: name, Text: strings.TrimSpace(text) + "\n", Form: Markdown}, err
}

func (r *rtfReader) read() error {
	for r.at < len(r.raw) {
		c := r.raw[r.at]
		r.at++
		switch c {
		case '{':
			r.flush()
			if len(r.stack) == maxRTFDepth {
				return errDeep
			}
			r.skip = 0
			r.stack = append(r.stack, r.state)
			r.state.star, r.state.begun = false, false
		case '}':
			r.flush()
			if r.endGroup(); len(r.stack) == 0 {
				return nil
			}
		case '\\':
			r.control()
		case '\r', '\n':
		default:
			r.byte(c)
		}
		if r.out.Len()+r.text.Len()+r.cell.Len() > MaxText {
			return ErrTooMuchText
		}
	}
	return errTornRTF
}

// endGroup restores the state before a group.
func (r *rtfReader) endGroup() {
	if len(r.stack) == 0 {
		return
	}
	before := r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	switch {
	case r.state.to == rtfNote && before.to != rtfNote:
		if text := oneLine(r.note.String()); text != "" {
			r.text.WriteString(" [" + r.state.kind + ": " + text + "]")
		}
		r.note.Reset()
	case r.state.to == rtfStyles:
		r.endEntry()
	}
	if r.state.script != before.script {
		r.endScript()
	}
	group := r.state
	if r.state = before; before.to == rtfBody && group.to == rtfBody { // a paragraph may begin in a group and end after it
		r.state.level, r.state.table = group.level, group.table
	}
	r.skip = 0
}

// control reads what follows a backslash.
func (r *rtfReader) control() {
	if r.at == len(r.raw) {
		return
	}
	c := r.raw[r.at]
	if c < 'A' || c > 'Z' && c < 'a' || c > 'z' {
		r.at++
		r.symbol(c)
		return
	}
	start := r.at
	for r.at < len(r.raw) && (r.raw[r.at]|0x20 >= 'a' && r.raw[r.at]|0x20 <= 'z') && r.at-start < 32 {
		r.at++
	}
	word := string(r.raw[start:r.at])
	start = r.at
	if r.at < len(r.raw) && r.raw[r.at] == '-' {
		r.at++
	}
	for r.at < len(r.raw) && r.raw[r.at] >= '0' && r.raw[r.at] <= '9' && r.at-start < 11 {
		r.at++
	}
	n, err := strconv.Atoi(string(r.raw[start:r.at]))
	if r.at < len(r.raw) && r.raw[r.at] == ' ' {
		r.at++
	}
	if word == "bin" { // bytes that are no text
		r.at = min(len(r.raw), r.at+max(n, 0))
		return
	}
	r.flush()
	r.word(word, n, err == nil)
}

// symbol reads a control symbol.
func (r *rtfReader) symbol(c byte) {
	switch c {
	case '\'':
		if r.at+2 > len(r.raw) {
			r.at = len(r.raw)
			return
		}
		n, err := strconv.ParseUint(string(r.raw[r.at:r.at+2]), 16, 8)
		if r.at += 2; err == nil && n > 0 {
			r.byte(byte(n))
		}
	case '*':
		r.state.star = true
	case '~':
		r.write(" ")
	case '_':
		r.write("-")
	case '\r', '\n':
		r.word("par", 0, false)
	case '\\', '{', '}':
		r.byte(c)
	}
}

// byte adds a character in the encoding of the font.
func (r *rtfReader) byte(c byte) {
	if r.skip > 0 {
		r.skip--
		return
	}
	if c == 0 {
		return
	}
	r.state.begun = true
	if r.state.to == rtfNowhere || r.state.hidden {
		return
	}
	r.bytes = append(r.bytes, c)
}

// flush decodes the bytes that were added.
func (r *rtfReader) flush() {
	if len(r.bytes) == 0 {
		return
	}
	raw := r.bytes
	r.bytes = nil
	from := r.state.font
	if from == nil {
		from = r.ansi
	}
	text, err := from.NewDecoder().Bytes(raw)
	if err != nil {
		return
	}
	r.write(strings.ToValidUTF8(string(text), "\ufffd"))
}

// write adds text where it goes.
func (r *rtfReader) write(text string) {
	r.flush()
	if r.state.hidden {
		return
	}
	text = strings.ReplaceAll(text, "\x00", "")
	switch r.state.to {
	case rtfNowhere, rtfFonts:
	case rtfTitle:
		r.title.WriteString(text)
	case rtfMark:
		r.mark.WriteString(text)
	case rtfNote:
		r.note.WriteString(text)
	case rtfStyles:
		r.name.WriteString(text)
	case rtfBody:
		if r.state.script != "" {
			r.raised.WriteString(text)
			return
		}
		r.endScript()
		r.text.WriteString(text)
	}
}

// endScript writes raised or lowered text so that it stays distinct.
func (r *rtfReader) endScript() {
	r.flush()
	text := r.raised.String()
	if text == "" {
		return
	}
	r.raised.Reset()
	if r.state.script == "sub" {
		text = Subscript(text)
	} else {
		text = Superscript(r.text.String(), text)
	}
	r.text.WriteString(text)
}

// paragraph writes the paragraph that has ended: into a cell, as a heading or item, or as it is.
func (r *rtfReader) paragraph() {
	r.endScript()
	text, mark := strings.TrimSpace(r.text.String()), oneLine(r.mark.String())
	r.text.Reset()
	r.mark.Reset()
	if r.state.table {
		r.cell.WriteString(oneLine(mark+" "+text) + " ")
		return
	}
	if text == "" {
		return
	}
	r.endTable()
	if before, after, ok := strings.Cut(text, "\t"); ok && mark == "" && before != "" && len(before) <= maxRTFMark {
		mark, text = before, strings.TrimSpace(after)
	}
	text = strings.ReplaceAll(text, "\t", " ")
	if r.state.level > 0 {
		r.heads = append(r.heads, heading{at: r.out.Len(), level: min(r.state.level, maxLevel), text: oneLine(text)})
		r.out.WriteString(strings.Repeat("#", min(r.state.level, maxLevel)) + " " + oneLine(mark+" "+text) + "\n\n")
		return
	}
	if mark != "" {
		if strings.Trim(mark, "·•–-*o§Ø▪○●◦\uf0b7\uf0a7\uf0d8 ") == "" {
			mark = "-"
		}
		r.out.WriteString(mark + " " + strings.ReplaceAll(text, "\n", "\n  ") + "\n\n")
		return
	}
	r.out.WriteString(strings.TrimRight(literalLines(text), "\n") + "\n\n")
}

// endRow ends a row of a table.
func (r *rtfReader) endRow() {
	r.rows = append(r.rows, r.cells)
	r.cells = nil
}

func (r *rtfReader) endTable() {
	if len(r.cells) > 0 {
		r.endRow()
	}
	if len(r.rows) > 0 {
		r.out.WriteString(markdownTable(r.rows) + "\n")
		r.rows = nil
	}
	r.cell.Reset()
}
