package analysis

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Language is a language that writes compounds as one word.
type Language struct {
	Name     string
	Function []string // the terms of frequent words that other languages of the list or English lack
	Links    []string // letters between two parts of a compound, longest first
	Endings  []string // inflections, longest first
}

// Languages returns the languages that write compounds as one word.
var Languages = sync.OnceValue(func() []Language {
	language := func(name, function, links, endings string) Language {
		l := Language{Name: name, Links: strings.Fields(links), Endings: strings.Fields(endings)}
		for word := range strings.FieldsSeq(function) {
			if term := TermOf(word); term != "" {
				l.Function = append(l.Function, term)
			}
		}
		longestFirst(l.Links)
		longestFirst(l.Endings)
		return l
	}
	return []Language{
		language("German", "und der das ist nicht mit ein eine den dem auf für wird werden oder bei nach zum zur sind",
			"s es n en er e ns ens", "e en er es em n s ern ens"),
		language("Dutch", "het een niet voor wordt worden zijn naar ook bij aan deze moet",
			"s e en er n", "en s e er n ers eren"),
		language("Swedish", "och att det som inte för är av på till kan eller ska",
			"s e o u a", "en et ar or er na arna erna orna n t a s ens ets as arnas ernas"),
		language("Danish", "og det ikke til af på som med skal eller ved efter blir bliver",
			"s e er", "en et er e r ne ene erne n t s ens ets ers"),
		language("Finnish", "että ovat joka tai sekä mutta kun jos voi myös eikä mukaan",
			"n en in is den jen",
			"n t a ä ssa ssä sta stä lla llä lta ltä lle ksi na nä en in on an än ien jen den tten iden ja jä ia iä ssaan issa issä ista istä ta tä ttä tta"),
		language("Hungarian", "az és hogy nem egy kell vagy lehet szerint után csak meg",
			"", "k ok ek ak ök t ot et at öt ban ben ba be bol ból ből nak nek val vel ra re ról ről hoz hez höz nál nél ért kent a e ja je i on en ön ai ei án én"),
	}
})

func longestFirst(list []string) {
	for i, s := range list {
		list[i] = fold(s)
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
}

// Fold returns a word in the spelling of terms: in lower case, without umlauts and ß.
func Fold(word string) string { return fold(strings.ToLower(strings.ReplaceAll(word, "’", "'"))) }

// Umlaut returns a folded word with the umlaut of its last vowel added or removed, as in plural
// forms, "" if that cannot be.
func Umlaut(word string) string {
	for i := len(word) - 1; i > 0; i-- {
		switch c := word[i]; {
		case c >= utf8.RuneSelf:
			return ""
		case c == 'e' && strings.IndexByte("aou", word[i-1]) >= 0 && i < len(word)-1:
			return word[:i] + word[i+1:]
		case (c == 'a' || c == 'o' || c == 'u') && i < len(word)-1:
			if c == 'u' && word[i-1] == 'a' {
				i--
			}
			return word[:i+1] + "e" + word[i+1:]
		}
	}
	return ""
}
