package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/runenames"
)

// A table lists, for each small ASCII letter, the characters that are read as it.
type table [26][]rune

// readLetters collects the characters that Unicode lists as confusable with a letter and those
// whose name says that they are one.
func readLetters(path string) (t table, version string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return t, "", err
	}
	for line := range strings.Lines(string(text)) {
		line, comment, _ := strings.Cut(line, "#")
		if v, ok := strings.CutPrefix(strings.TrimSpace(comment), "Version: "); ok {
			version = v
		}
		fields := strings.Split(line, ";")
		if len(fields) < 3 {
			continue
		}
		r, err := codePoints(fields[0])
		if err != nil {
			return t, "", err
		}
		target, err := codePoints(fields[1])
		if err != nil {
			return t, "", err
		}
		t.add([]rune(r)[0], prototype(target))
	}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		t.add(r, called(r))
	}
	for letter, runes := range faux {
		for _, r := range runes {
			t.add(r, string(letter))
		}
	}
	for i := range t {
		for _, r := range t[i] {
			for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
				t.add(c, string(rune('a'+i)))
			}
		}
		slices.Sort(t[i])
		t[i] = slices.Compact(t[i])
	}
	return t, version, nil
}

// add records that r is read as each of letters. It omits ASCII, marks, and characters that
// decompose to the letter: the package recognises those without a table.
func (t *table) add(r rune, letters string) {
	if r < 0x80 || unicode.In(r, unicode.M, unicode.Cf) {
		return
	}
	plain := []rune(norm.NFKD.String(string(r)))[0]
	for _, letter := range letters {
		if unicode.ToLower(plain) != letter {
			t[letter-'a'] = append(t[letter-'a'], r)
		}
	}
}

// faux holds characters used for Latin letters in "faux Cyrillic" and leetspeak that are in
// neither of the other sources.
var faux = map[rune]string{'e': "əє", 'f': "ғ", 'n': "ипн", 'r': "я", 'u': "μц", 'w': "ωш"}

// codePoints parses code points such as "0073 0335".
func codePoints(field string) (string, error) {
	var b strings.Builder
	for _, hex := range strings.Fields(field) {
		n, err := strconv.ParseUint(strings.TrimPrefix(hex, "\ufeff"), 16, 21)
		if err != nil {
			return "", fmt.Errorf("code point %q: %w", hex, err)
		}
		b.WriteRune(rune(n))
	}
	return b.String(), nil
}

// prototype returns the small letters as which a target of confusables.txt is read: a letter with
// marks is that letter, "l" stands for I, l and 1, "rn" for m.
func prototype(target string) string {
	var base []rune
	for _, r := range norm.NFKD.String(target) {
		if !unicode.Is(unicode.M, r) {
			base = append(base, r)
		}
	}
	switch s := strings.ToLower(string(base)); {
	case s == "l":
		return "il"
	case s == "rn":
		return "m"
	case len(s) == 1 && s[0] >= 'a' && s[0] <= 'z':
		return s
	}
	return ""
}

// letterName matches the names of characters that are one Latin letter in some variant: LATIN
// SMALL LETTER O WITH STROKE, LATIN LETTER SMALL CAPITAL R, NEGATIVE SQUARED LATIN CAPITAL LETTER
// S, REGIONAL INDICATOR SYMBOL LETTER S.
var letterName = regexp.MustCompile(`(?:LATIN|REGIONAL INDICATOR SYMBOL) (?:[A-Z]+ )*LETTER (?:[A-Z]+ )*([A-Z])(?: WITH [A-Z ]+)?$`)

// called returns the letter in r's Unicode name, "" if none.
func called(r rune) string {
	if m := letterName.FindStringSubmatch(runenames.Name(r)); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}
