package strictyaml

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sidenote/rewrite/similar"
)

// DidYouMean returns "; did you mean X?" for the word most similar to s, or "" if none is similar.
func DidYouMean(s string, words []string) string {
	best := similar.Word(s, words)
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// MeantWord is DidYouMean for the words of a setting. A word that means yes or no is never taken
// for a misspelled word of the opposite meaning.
func MeantWord(s string, words []string) string {
	counterparts, known := map[string][]string{
		"no": {"off", "none", "never"}, "false": {"off", "none", "never"}, "off": {"off", "none", "never"}, "n": {"off", "none", "never"},
		"none": {"none", "off", "never"}, "never": {"never", "off", "none"}, "disabled": {"off", "none", "never"}, "0": {"off", "none", "never"},
		"yes": {"on", "always"}, "true": {"on", "always"}, "on": {"on", "always"}, "y": {"on", "always"}, "enabled": {"on", "always"}, "1": {"on", "always"},
	}[strings.ToLower(s)]
	if !known {
		return DidYouMean(s, words)
	}
	for _, word := range counterparts {
		if slices.Contains(words, word) {
			return "; did you mean " + word + "?"
		}
	}
	return ""
}

// Ungrouped returns a number, with its unit, without separators between groups of three digits; ""
// if the text is not such a number.
func Ungrouped(text string) string {
	if !regexp.MustCompile(`^[0-9]{1,3}([,_' ][0-9]{3})+[ A-Za-z]*$`).MatchString(text) {
		return ""
	}
	return strings.NewReplacer(",", "", "_", "", "'", "", " ", "").Replace(text)
}

// SpellingHint says how to write a number that could not be parsed.
func SpellingHint(text, otherwise string) string {
	if plain := Ungrouped(text); plain != "" {
		return "write " + plain
	}
	return "write it as in " + otherwise
}

// BeginsWithDigit reports whether a text may be the beginning of a number.
func BeginsWithDigit(text string) bool {
	return text != "" && text[0] >= '0' && text[0] <= '9'
}

// OutOfRange reports whether a text is a number that is too large.
func OutOfRange(text string) bool {
	if !BeginsWithDigit(strings.TrimLeft(text, "+-.")) {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return errors.Is(err, strconv.ErrRange)
}

// Sourced names the source of a value in a problem about it. A value from the environment may be a
// secret that was named by mistake, so it is not repeated.
func Sourced(reason, text, from string) string {
	if from == "" {
		return reason
	}
	for _, value := range []string{strconv.Quote(text), text} {
		if rest, cut := strings.CutPrefix(reason, value); cut {
			return from + rest
		}
	}
	if strings.Contains(reason, text) {
		return from + " is refused"
	}
	return from + ": " + reason
}
