package knowledge

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// correctedWeight is the weight of a corrected word, relative to one that texts have.
	correctedWeight = 0.8
	// correctedTopic is how much it says about the topic of a text: the word may be another.
	correctedTopic = 0.5
	// oneEdit and twoEdits are the lengths from which a word is searched with so many edits.
	oneEdit  = 5
	twoEdits = 8
	// mostCorrected is how many words of a question are corrected: the longest.
	mostCorrected = 6
	// mostAlternatives is how many words are searched instead of one.
	mostAlternatives = 3
	// leastPrefix is the least length of a term whose ending may be misspelled.
	leastPrefix = 3
)

// alternatives returns terms, sorted by text, with the alternatives of compounds and of misspelled
// words. A compound whose parts texts have is not misspelled.
func (e extent) alternatives(ctx context.Context, terms []bm25.Term, allowed []bm25.Bitmap) ([]bm25.Term, error) {
	terms, err := e.expand(ctx, terms, allowed)
	if err != nil {
		return nil, err
	}
	return e.correct(ctx, terms, allowed)
}

// correct returns terms, sorted by text, with the alternatives of words that no text of the extent
// has: the nearest terms that the allowed texts have. Only words are corrected, no names, numbers
// and identifiers. If there is nothing to correct it returns terms itself.
func (e extent) correct(ctx context.Context, terms []bm25.Term, allowed []bm25.Bitmap) ([]bm25.Term, error) {
	x := e.content.index
	var unknown []bm25.Term // with the weights of all their occurrences
	for _, t := range terms {
		if !correctable(&t) || x.Meaning(t.Text).Known || slices.ContainsFunc(terms, func(other bm25.Term) bool { return other.Of == t.Text && x.Meaning(other.Text).Known }) {
			continue
		}
		if n := len(unknown); n > 0 && unknown[n-1].Text == t.Text {
			unknown[n-1].Weight += t.Weight
			continue
		}
		unknown = append(unknown, t)
	}
	if len(unknown) == 0 {
		return terms, nil
	}
	if len(unknown) > mostCorrected {
		slices.SortStableFunc(unknown, func(a, b bm25.Term) int { return cmp.Compare(len(b.Word), len(a.Word)) })
		unknown = unknown[:mostCorrected]
	}
	corrected := slices.Clone(terms)
	for _, t := range unknown {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found := spelling{x, allowed, word(&t), t.Text}.nearest()
		if len(found) == 0 {
			continue
		}
		corrected = slices.DeleteFunc(corrected, func(other bm25.Term) bool { return other.Of == "" && other.Text == t.Text })
		for _, term := range found {
			corrected = append(corrected, bm25.Term{Text: term, Weight: correctedWeight * t.Weight, Of: t.Text, Word: t.Word, Kind: bm25.Correction})
		}
	}
	slices.SortStableFunc(corrected, func(a, b bm25.Term) int { return cmp.Or(bm25.ByText(a, b), cmp.Compare(a.Of, b.Of)) })
	return corrected, nil
}

// correctable reports whether a term belongs to a word that may be misspelled. A word in capitals
// is a name.
func correctable(t *bm25.Term) bool {
	if t.Of != "" || t.Whole != "" || utf8.RuneCountInString(t.Word) < oneEdit || !analysis.Alphabetic(t.Text) || analysis.Conversational(t.Text) {
		return false
	}
	return strings.ContainsFunc(t.Word, func(r rune) bool { return !unicode.IsUpper(r) })
}

// word returns the word of a term in lower case, without a possessive ending.
func word(t *bm25.Term) string {
	w := strings.ReplaceAll(strings.ToLower(t.Word), "’", "'")
	return strings.TrimSuffix(w, "'s")
}

// A spelling is a word that no text has.
type spelling struct {
	index   *bm25.Index
	allowed []bm25.Bitmap
	word    string // in lower case
	term    string
}

// nearest returns the terms of the words that it may stand for: those that need the fewest edits,
// of these the ones with the same first letter, the most common first. Two edits must leave the
// first letter.
//
// Terms are compared with the word's own term. As a misspelled ending is not removed like a right
// one, words with two letters transposed or one letter removed are looked up, too, and terms with
// which the word begins are tried with other endings.
func (s spelling) nearest() []string {
	found, stop := s.transposed()
	if stop || len(found) > 0 {
		return s.choose(found)
	}
	found = s.index.Nearest(s.term, 1, s.allowed, s.ending(s.shortened()))
	if len(found) == 0 && utf8.RuneCountInString(s.word) >= twoEdits {
		found = s.index.Nearest(s.term, 2, s.allowed, nil)
	}
	return s.choose(found)
}

// begins returns 0 if a term begins with the letter of the word, else 1.
func (s spelling) begins(term string) int {
	a, _ := utf8.DecodeRuneInString(s.word)
	if b, _ := utf8.DecodeRuneInString(term); a == b {
		return 0
	}
	return 1
}

// choose returns the best alternatives.
func (s spelling) choose(found []string) []string {
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.begins(a), s.begins(b)), cmp.Compare(s.index.Meaning(a).IDF, s.index.Meaning(b).IDF), cmp.Compare(a, b))
	})
	n := 0
	for n < len(found) && n < mostAlternatives && s.begins(found[n]) == s.begins(found[0]) {
		n++
	}
	return found[:n]
}

// add appends the term of a variant of the word if an allowed text has it. stop reports whether the
// variant is a stop word.
func (s spelling) add(found []string, variant string) (_ []string, stop bool) {
	term := analysis.TermOf(variant)
	if term != "" && !slices.Contains(found, term) && s.index.Contains(term, s.allowed) {
		found = append(found, term)
	}
	return found, term == ""
}

// transposed returns the terms of the words that differ in the order of two letters; stop reports
// whether one of them is a stop word, as for "becuase".
func (s spelling) transposed() (found []string, stop bool) {
	for v := range transpositions(s.word) {
		if found, stop = s.add(found, v); stop {
			return nil, true
		}
	}
	return found, false
}

// shortened returns the terms of the words that have one letter less.
func (s spelling) shortened() (found []string) {
	for v := range deletions(s.word) {
		found, _ = s.add(found, v)
	}
	return found
}

// ending appends the terms with which the word begins, if the rest of it is nearly an ending.
func (s spelling) ending(found []string) []string {
	for i := range s.word {
		if i < leastPrefix || len(s.word)-i > mostEnding {
			continue
		}
		term := s.word[:i]
		if slices.Contains(found, term) || !s.index.Contains(term, s.allowed) {
			continue
		}
		for variant := range analysis.WithEndings(term) {
			if analysis.Edits(s.word, variant, 1) == 1 && analysis.TermOf(variant) == term {
				found = append(found, term)
				break
			}
		}
	}
	return found
}

// mostEnding is the length from which the rest of a word is no ending.
const mostEnding = 10

// meant returns the word that an alternative stands for: the term in the form of the misspelled
// word.
func meant(word, term string) string {
	variants := slices.AppendSeq(slices.Collect(transpositions(word)), deletions(word))
	if own := analysis.TermOf(word); own != word && strings.HasPrefix(word, own) {
		variants = append(variants, term+word[len(own):])
	}
	for v := range analysis.WithEndings(term) {
		if analysis.Edits(word, v, 1) == 1 {
			variants = append(variants, v)
		}
	}
	for _, v := range variants {
		if analysis.TermOf(v) == term {
			return v
		}
	}
	return term
}

// transpositions yields the word with each two adjacent letters that differ transposed.
func transpositions(word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		letters := []rune(word)
		for i := range len(letters) - 1 {
			if letters[i] == letters[i+1] {
				continue
			}
			letters[i], letters[i+1] = letters[i+1], letters[i]
			if !yield(string(letters)) {
				return
			}
			letters[i], letters[i+1] = letters[i+1], letters[i]
		}
	}
}

// deletions yields the word without each of its letters.
func deletions(word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, r := range word {
			if !yield(word[:i] + word[i+utf8.RuneLen(r):]) {
				return
			}
		}
	}
}
