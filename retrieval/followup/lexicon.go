package followup

import "strings"

// A language is one of those whose words are known.
type language uint8

const (
	english language = iota
	german
	french
	spanish
	chinese
	languages
)

// roles say what a word can do in a question. A word without any says what the question is
// about.
type roles uint16

const (
	function roles = 1 << iota // says nothing about the subject
	refers                     // stands for something that was said before
	owns                       // likewise, for an owner, who is often named in the same clause
	opens                      // goes on from what was said, at the beginning of a question
	asks                       // asks for something, so that a question needs no other words
	closes                     // ends a talk, or praises: no question
	relates                    // a preposition: at the beginning of a few words it makes them a fragment
	leads                      // makes a pronoun of "that" or "la" behind it
	clause                     // begins another clause
	article                    // brings in something new
	definite                   // an article for something that is known
	adds                       // "too": the rest was said before
	says                       // no function word, although a Chinese character of it is one
	now                        // no function word; "this" before it means the time or place of the one who asks
	chats                      // no function word; small talk, which goes on from nothing
	you                        // the one who is asked
)

// A special word's role depends on the words beside it.
type special uint8

const (
	none        special = iota
	itWord              // a pronoun, or empty
	thatWord            // a pronoun, or a conjunction
	thisWord            // a pronoun
	thereWord           // a pronoun, or empty
	thenWord            // a pronoun at the end
	oneWord             // a pronoun, or a number
	sameWord            // a pronoun near the beginning
	insteadWord         // a pronoun, or part of "instead of"
	elseWord            // a pronoun behind a word that asks
	ofWord              // behind "instead"
	aboutWord           // behind "what", at the beginning
	toWord              // begins what an empty "it" is about
	likelyWord          // what something may be said to be, as in "is it possible"
	existsWord          // makes "it" and "there" empty, as in "es gibt"
	whichWord           // makes a pronoun of "one" behind it
	theWord             // an article, or a pronoun where no noun follows
	sheWord             // a pronoun in lower case
	cliticWord          // an article, or a pronoun before a verb
	subjectWord         // a clitic behind it is a pronoun
	ceWord              // French "ce": a pronoun before a noun
	endWord             // at the end of a Chinese fragment it asks
)

// A word is what the languages know of one spelling.
type word struct {
	roles   [languages]roles
	special [languages]special
}

// A lexicon lists the words of a language by what they do. Words in any list are function
// words.
type lexicon struct {
	roles   map[roles]string
	special map[special]string
}

// maxWord is the length of the longest word in a lexicon, in bytes.
const maxWord = 24

// lexemes are the words of all languages, by spelling in lower case. Nobody changes them.
var lexemes = func() map[string]*word {
	all := map[string]*word{}
	at := func(spelling string) *word {
		if all[spelling] == nil {
			all[spelling] = new(word)
		}
		return all[spelling]
	}
	for l, list := range [languages]lexicon{englishWords, germanWords, frenchWords, spanishWords, chineseWords} {
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
	return all
}()
