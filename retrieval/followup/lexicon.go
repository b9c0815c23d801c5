package followup

import "strings"

// A language is a language with a lexicon.
type language uint8

const (
	english language = iota
	german
	french
	spanish
	chinese
	italian
	portuguese
	dutch
	polish
	turkish
	finnish
	hungarian
	vietnamese
	russian
	greek
	hebrew
	arabic
	korean
	japanese
	languages
)

// roles are what a word can do in a question, as bits. A word without roles is a content word.
type roles uint16

const (
	function roles = 1 << iota // is no content word
	refers                     // refers to something said before
	owns                       // likewise, as a possessive, whose owner is often named in the same clause
	opens                      // continues what was said, at the beginning of a question
	asks                       // asks for something, so that a question needs no other words
	closes                     // ends a conversation, or praises: no question
	relates                    // a preposition: at the beginning of a few words it makes them a fragment
	leads                      // makes a following "that" or "la" a pronoun
	clause                     // begins a new clause
	article                    // introduces something new
	definite                   // an article for something known
	adds                       // "too": the rest was said before
	says                       // a content word although a Chinese character of it is a function word
	now                        // a content word; "this" before it means the asker's time or place
	chats                      // a content word of small talk, which follows up on nothing
	you                        // addresses the assistant
)

// A special word has a role that depends on the words next to it.
type special uint8

const (
	none        special = iota
	itWord              // a pronoun, or an expletive
	thatWord            // a pronoun, or a conjunction
	thisWord            // a pronoun
	thereWord           // a pronoun, or an expletive
	thenWord            // a pronoun at the end
	oneWord             // a pronoun, or a number
	sameWord            // a pronoun near the beginning
	insteadWord         // a pronoun, or part of "instead of"
	elseWord            // a pronoun after a word that asks
	ofWord              // after "instead"
	aboutWord           // after "what", at the beginning
	toWord              // begins the clause that an expletive "it" announces
	likelyWord          // a predicate of an expletive "it", as in "is it possible"
	existsWord          // makes "it" and "there" expletives, as in "es gibt"
	whichWord           // makes a following "one" a pronoun
	theWord             // an article, or a pronoun if no noun follows
	sheWord             // a pronoun in lower case
	cliticWord          // an article, or a pronoun before a verb
	subjectWord         // makes a following clitic a pronoun
	ceWord              // French "ce": a pronoun before a noun
	endWord             // at the end of a Chinese fragment it asks
)

// A word holds the roles of one spelling in each language.
type word struct {
	in      uint32 // the languages in which it is a function word, as bits
	roles   [languages]roles
	special [languages]special
}

// A lexicon lists the words of a language by role. All are function words, except those of the
// roles now, says and chats.
type lexicon struct {
	roles   map[roles]string
	special map[special]string
}

// maxWord is the length of the longest word in a lexicon, in bytes.
const maxWord = 24

// lexemes maps lower-case spellings to the words of all languages. It must not be modified.
var lexemes = func() map[string]*word {
	all := map[string]*word{}
	at := func(spelling string) *word {
		if all[spelling] == nil {
			all[spelling] = new(word)
		}
		return all[spelling]
	}
	for l, list := range [languages]lexicon{
		englishWords, germanWords, frenchWords, spanishWords, chineseWords, italianWords, portugueseWords, dutchWords, polishWords, turkishWords,
		finnishWords, hungarianWords, vietnameseWords, russianWords, greekWords, hebrewWords, arabicWords, koreanWords, japaneseWords,
	} {
		for role, spellings := range list.roles {
			for _, s := range strings.Fields(spellings) {
				if at(s).roles[l] |= role; role&(now|says|chats) == 0 {
					at(s).roles[l] |= function
				}
			}
		}
		for kind, spellings := range list.special {
			for _, s := range strings.Fields(spellings) {
				w := at(s)
				if w.special[l] != none {
					panic("BUG: " + s + " is special in two ways")
				}
				w.roles[l] |= function
				w.special[l] = kind
			}
		}
	}
	for _, w := range all {
		for l, r := range w.roles {
			if r&function != 0 {
				w.in |= 1 << l
			}
		}
	}
	return all
}()
