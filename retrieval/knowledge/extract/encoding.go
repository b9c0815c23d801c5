package extract

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
)

const (
	// detectBytes is how many bytes are used to guess the encoding; more do not improve the guess.
	detectBytes = 16 << 10
	// sureEnough is the least confidence of a guess that is used. Below it the text is
	// taken as Windows-1252, which most old western files are in.
	sureEnough = 0.5
	// A text is damaged UTF-8 if it has at least tornShare valid characters beyond ASCII
	// for each invalid byte.
	tornShare = 20
	// minUnmarked is the least number of characters for a text without byte order mark
	// and Latin letters to be recognised as UTF-16.
	minUnmarked = 32
)

// Decode returns raw as UTF-8 with line feeds as its only line breaks. The encoding is that of the
// byte order mark, if there is one; else UTF-16 if most of every other byte are zero, UTF-8 if raw
// is valid or has single invalid bytes, which become U+FFFD, or what its letters suggest.
func Decode(raw []byte) (string, error) {
	text, _, err := decode(raw)
	return text, err
}

// decode is Decode. guess names the encoding if another one is nearly as likely; else it is "".
func decode(raw []byte) (text, guess string, err error) {
	if text, ok, err := decodeUnicode(raw); ok {
		return text, "", err
	}
	return decodeLegacy(raw)
}

// decodeUnicode decodes UTF-8 and UTF-16. ok is false for other encodings.
func decodeUnicode(raw []byte) (text string, ok bool, err error) {
	text, err = unicodeText(raw)
	return text, !errors.Is(err, errLegacy), err
}

// errLegacy means that bytes are not in an encoding of Unicode.
var errLegacy = errors.New("not Unicode")

func unicodeText(raw []byte) (string, error) {
	switch {
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return checked(string(raw[3:]))
	case bytes.HasPrefix(raw, []byte("\xff\xfe")):
		return decodeUTF16(raw[2:], binary.LittleEndian)
	case bytes.HasPrefix(raw, []byte("\xfe\xff")):
		return decodeUTF16(raw[2:], binary.BigEndian)
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return decodeUnmarkedUTF16(raw)
	}
	if utf8.Valid(raw) && !bytes.Contains(raw, []byte("\x1b$")) { // excludes ISO-2022
		return checked(string(raw))
	}
	if torn(raw) {
		return checked(strings.ToValidUTF8(string(raw), "\ufffd"))
	}
	return "", errLegacy
}

// utf16Order recognises UTF-16 without a byte order mark: in Latin letters, spaces and
// line breaks either all high bytes or all low bytes are zero.
func utf16Order(raw []byte) binary.ByteOrder {
	sample := raw[:min(len(raw), detectBytes)]
	var zeros [2]int
	for i, b := range sample {
		if b == 0 {
			zeros[i%2]++
		}
	}
	enough := max(2, len(sample)/4) // in half of the characters
	switch {
	case zeros[1] >= enough && zeros[0]*20 <= zeros[1]:
		return binary.LittleEndian
	case zeros[0] >= enough && zeros[1]*20 <= zeros[0]:
		return binary.BigEndian
	}
	return nil
}

// decodeUnmarkedUTF16 decodes UTF-16 without a byte order mark. A text without Latin
// letters has zero bytes in line breaks and spaces only; it is accepted if it is long
// enough and all of its characters are printable, which other bytes hardly ever are.
func decodeUnmarkedUTF16(raw []byte) (string, error) {
	order, written := utf16Order(raw), func(r rune) bool { return !unwritten(r) }
	if order == nil {
		if len(raw)/2 < minUnmarked {
			return "", ErrNotText
		}
		written = func(r rune) bool { return unicode.IsGraphic(r) || r == '\n' || r == '\t' }
		order = binary.LittleEndian
		if bytes.IndexByte(raw, 0)%2 == 0 {
			order = binary.BigEndian
		}
	}
	text, err := decodeUTF16(raw, order)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return !written(r) }) {
		return "", ErrNotText
	}
	return text, nil
}

func decodeUTF16(raw []byte, order binary.ByteOrder) (string, error) {
	if len(raw)%2 != 0 {
		return "", ErrNotText
	}
	units := make([]uint16, len(raw)/2)
	_, _ = binary.Decode(raw, order, units) // cannot fail: units has the right length
	text := string(utf16.Decode(units))
	if strings.ContainsRune(text, utf8.RuneError) { // from a lone surrogate
		return "", ErrNotText
	}
	return checked(text)
}

// torn reports whether raw is UTF-8 with a few invalid bytes, as happens when lines are cut at a
// number of bytes, or when a program inserts a text in another encoding: then each invalid byte is
// between valid characters, and there are no more of them than of those beyond ASCII.
func torn(raw []byte) bool {
	good, bad, adjacent := 0, 0, 0
	after := false // an invalid byte
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		invalid := r == utf8.RuneError && n == 1
		switch {
		case n > 1:
			good++
		case invalid:
			bad++
			if after {
				adjacent++
			}
		}
		after = invalid
		raw = raw[n:]
	}
	return bad > 0 && (good >= bad*tornShare || good >= bad && adjacent == 0)
}

func decodeLegacy(raw []byte) (text, guess string, err error) {
	sample := sampleOf(raw)
	latin := guessLatin(sample)
	detected, confidence := detect(sample)
	candidates := []encoding.Encoding{latin.encoding, detected}
	sure := latin.sure
	if !latin.fits() {
		candidates = []encoding.Encoding{detected}
		sure = confidence >= sureEnough && detected != charmap.Windows1252 // which fits any bytes
	}
	// A short text in Shift JIS cannot be guessed by its letters, but has bytes that are
	// invalid in Windows-1252.
	for i, e := range append(candidates, charmap.Windows1252, japanese.ShiftJIS) {
		if text, ok := decodeStrict(e, raw); ok {
			if i > 0 || !sure {
				guess = encodingName(e)
			}
			text, err = checked(text)
			return text, guess, err
		}
	}
	return "", "", ErrNotText
}

// encodingName returns the name of an encoding for people.
func encodingName(e encoding.Encoding) string {
	if name, ok := e.(fmt.Stringer); ok {
		return name.String()
	}
	return "an older encoding"
}

// sampleOf returns the lines of raw that are not plain ASCII, up to detectBytes, because
// ASCII says nothing about the encoding. Lines can be cut safely: no double-byte
// character contains a line feed.
func sampleOf(raw []byte) []byte {
	sample := make([]byte, 0, min(len(raw), detectBytes))
	for line := range bytes.Lines(raw) {
		if len(sample) >= detectBytes {
			break
		}
		if bytes.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf || r == 0x1b }) >= 0 {
			sample = append(sample, line[:min(len(line), detectBytes-len(sample))]...)
		}
	}
	return sample
}

// detect returns the likely encoding of a text by the frequencies of its letters, and how likely it
// is, from 0 to 1.
func detect(sample []byte) (e encoding.Encoding, confidence float64) {
	defer func() {
		if recover() != nil { // a panic on hostile bytes must not end the process
			e, confidence = charmap.Windows1252, 0
		}
	}()
	found := chardet.Detect(sample)
	if found.Confidence < sureEnough {
		return charmap.Windows1252, found.Confidence
	}
	name := strings.ToLower(found.Encoding)
	switch name {
	case "gb2312", "gbk":
		name = "gb18030" // a superset of both
	case "macroman":
		name = "macintosh"
	}
	if e, err := htmlindex.Get(name); err == nil {
		return e, found.Confidence
	}
	return charmap.Windows1252, 0
}

// decodeStrict decodes raw. ok is false if some bytes are invalid in e or decode to
// control characters, so that e cannot be the encoding.
func decodeStrict(e encoding.Encoding, raw []byte) (text string, ok bool) {
	out, err := e.NewDecoder().Bytes(raw)
	if err != nil || bytes.ContainsRune(out, utf8.RuneError) {
		return "", false
	}
	return string(out), bytes.IndexFunc(out, unwritten) < 0
}

func unwritten(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\v\f\r\x1b", r) || r >= 0x7f && r < 0xa0 && r != 0x85
}

func checked(text string) (string, error) {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return "", ErrNotText
	}
	return lineFeeds(text), nil
}

// lineFeeds replaces all line breaks by line feeds.
func lineFeeds(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
