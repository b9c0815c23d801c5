package extract

import (
	"strings"
	"unicode"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// A language has the letters beyond ASCII of texts in it, and the encodings of one byte that they
// are written in. Orthographies are from the Unicode CLDR (main exemplar characters).
type language struct {
	letters   string
	encodings []*charmap.Charmap
	frequent  string  // letters that make at least half of a text; "" if that is not checked
	weight    float64 // of its fit
}

var (
	western = []*charmap.Charmap{charmap.Windows1252, charmap.Macintosh}
	central = []*charmap.Charmap{charmap.Windows1250, charmap.ISO8859_2}
)

// languages are in the order in which they are preferred if a text fits several.
func languages() []language {
	latin := func(letters string, in []*charmap.Charmap) language {
		return language{letters: letters, encodings: in, weight: 1}
	}
	return []language{
		latin("äöüß", western),
		latin("àâæçéèêëîïôœùûüÿ", western),
		latin("áéíñóúü", western),
		latin("áâãàçéêíóôõú", western),
		latin("àèéìíîòóù", western),
		latin("åäöéæø", western),
		latin("éèëïóöüêáíú", western),
		latin("çğıöşüâîûİ", []*charmap.Charmap{charmap.Windows1254}),
		latin("ąćęłńóśźż", central),
		latin("áčďéěíňóřšťúůýž", central),
		latin("áäčďéíĺľňóôŕšťúýž", central),
		latin("áéíóöőúüű", central),
		latin("ăâîşţșț", central),
		latin("čćđšž", central),
		latin("áðéíóúýþæö", western[:1]),
		{"áàâãäåæçéèêëíìîïñóòôõöøœúùûüßÿ", western, "", 0.9}, // names of several languages
		{arabic, []*charmap.Charmap{charmap.Windows1256}, "اليمنورته", 1},
	}
}

// arabic is the letters of Arabic and Persian, and French ones in between.
const arabic = "ءآأؤإئابةتثجحخدذرزسشصضطظعغـفقكلمنهوىيپچژگکھےںڑڈٹ،؛؟ًٌٍَُِّْ"

const (
	// leastFit is the share of the characters beyond ASCII that fit the language of a guess.
	leastFit = 0.75
	// sureFit is that of a guess which is not reported, and sureLead how much more it fits than any
	// other text that the bytes may be.
	sureFit, sureLead = 0.9, 0.05
	// rareEncoding is the weight of an encoding that few files are in.
	rareEncoding = 0.93
)

// A latinGuess is an encoding of one byte for a text in a language with a known alphabet.
type latinGuess struct {
	encoding encoding.Encoding
	fit      float64
	sure     bool
}

func (g latinGuess) fits() bool { return g.fit >= leastFit }

// guessLatin returns the encoding in which most characters of a text beyond ASCII are letters of one
// language, or punctuation where that may be.
func guessLatin(sample []byte) latinGuess {
	best := latinGuess{encoding: charmap.Windows1252}
	texts := map[*charmap.Charmap]string{}
	second, bestText := 0.0, ""
	for _, l := range languages() {
		for _, e := range l.encodings {
			text, known := texts[e]
			if !known {
				text, _ = decodeStrict(e, sample)
				texts[e] = text
			}
			fit := l.weight * fitOf(text, l)
			if e == charmap.Macintosh {
				fit *= rareEncoding
			}
			if fit > best.fit {
				if text != bestText {
					second = best.fit
				}
				best.encoding, best.fit, bestText = e, fit, text
			} else if text != bestText {
				second = max(second, fit)
			}
		}
	}
	best.sure = best.fit >= sureFit && second <= best.fit-sureLead
	return best
}

// fitOf returns the share of the characters of text beyond ASCII that fit a language; 0 if there are
// none, most of the letters of a Latin alphabet are beyond ASCII, or the frequent ones are rare.
func fitOf(text string, l language) float64 {
	var fitting, all, plain, frequent float64
	before := ' '
	runes := []rune(text)
	for i, r := range runes {
		if r < unicode.MaxASCII {
			if unicode.IsLetter(r) {
				plain++
			}
			before = r
			continue
		}
		after := ' '
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		all++
		fitting += fitOfRune(r, before, after, l.letters)
		if strings.ContainsRune(l.frequent, r) {
			frequent++
		}
		before = r
	}
	if all == 0 || l.frequent == "" && all > plain || l.frequent != "" && 2*frequent < all {
		return 0
	}
	return fitting / all
}

// fitOfRune returns 1 for a letter of a language, and for a sign where it may be, less for what is
// seldom written there, and -1 for what is not.
func fitOfRune(r, before, after rune, letters string) float64 {
	inWord := unicode.IsLetter(before) && unicode.IsLetter(after)
	alone := !unicode.IsLetter(before) && !unicode.IsLetter(after)
	switch {
	case unicode.IsUpper(r) && unicode.IsLower(before):
		return -1
	case strings.ContainsRune(letters, unicode.ToLower(r)), strings.ContainsRune(letters, r):
		if alone && unicode.IsUpper(r) {
			return 0.25
		}
		return 1
	case unicode.IsLetter(r):
		return -1
	case r == '’', !inWord && strings.ContainsRune("“”„‚‘…–—«»‹›€£§°©®™·•\u00a0\u200c", r), unicode.IsLetter(after) && (r == '¿' || r == '¡'):
		return 1
	case !inWord && strings.ContainsRune("½¼²³×±†\u00ad", r):
		return 0.5
	}
	return -1
}
