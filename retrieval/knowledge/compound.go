package knowledge

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// compoundWeight is the weight of words that contain a word of the question, or that are one
	// of its parts, relative to the word itself.
	compoundWeight = 0.6
	// partWeight is the weight of the parts of a word that is found as a whole, too.
	partWeight = 0.3
	// leastPart is the length from which a word may be a part of others; of shorter words than
	// sureStem the rest must be longer than leastRest.
	leastPart = 4
	sureStem  = 5
	leastRest = 3
	// mostForms is how many words are searched besides one word or part.
	mostForms = 16
	// mostSplit is how many words of a question are looked up in compounds: the longest.
	mostSplit = 12
	// leastCompounding is the number of function words of a language per text from which a base is
	// taken to have texts in it.
	leastCompounding = 0.2
)

// compoundBudget limits the comparisons for one word to a millisecond.
var compoundBudget = bm25.Budget{Masks: 300_000, Letters: 1 << 12}

// A grammar is what is known about the compounds of the languages of a base.
type grammar struct {
	links, endings map[string]bool
	words          retrieval.Recent[compound]
}

// compounding returns the grammar of the languages of the content that write compounds as one
// word, nil if it has none.
func (c *Content) compounding() *grammar {
	c.grammarOnce.Do(func() {
		for _, l := range analysis.Languages() {
			n := 0
			for _, term := range l.Function {
				n += c.index.Texts(term)
			}
			if n == 0 || float64(n) < leastCompounding*float64(c.index.Len()) {
				continue
			}
			if c.grammar == nil {
				c.grammar = &grammar{links: map[string]bool{"": true}, endings: map[string]bool{"": true}}
			}
			for _, s := range l.Links {
				c.grammar.links[s] = true
			}
			for _, s := range l.Endings {
				c.grammar.endings[s] = true
			}
		}
	})
	return c.grammar
}

// A compound is what texts have for a word of a question.
type compound struct {
	term  string
	forms []string   // words that contain the word, or its inflections
	parts [][]string // by part: the part and words that contain it
	sure  bool       // whether all parts are words
}

// expand returns terms, sorted by text, with alternatives for words that are parts of compounds, or
// compounds themselves, in bases whose languages have such words.
func (e extent) expand(ctx context.Context, terms []bm25.Term, allowed []bm25.Bitmap) ([]bm25.Term, error) {
	g := e.content.compounding()
	if g == nil {
		return terms, nil
	}
	var words []bm25.Term
	for _, t := range terms {
		switch n := len(words); {
		case t.Word == "" || t.Of != "" || t.Whole != "" || utf8.RuneCountInString(t.Word) < leastPart || !analysis.Alphabetic(t.Text) || analysis.Conversational(t.Text):
		case n > 0 && words[n-1].Text == t.Text:
			words[n-1].Weight = max(words[n-1].Weight, t.Weight)
		default:
			words = append(words, t)
		}
	}
	if len(words) > mostSplit {
		slices.SortStableFunc(words, func(a, b bm25.Term) int { return cmp.Compare(len(b.Word), len(a.Word)) })
		words = words[:mostSplit]
	}
	expanded := slices.Clone(terms)
	for _, t := range words {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found := e.compound(g, &t, allowed)
		known := e.content.index.Meaning(t.Text).Known
		if len(found.forms) == 0 && len(found.parts) == 0 || !known && !found.sure && e.misspelled(&t, allowed) {
			continue
		}
		if !known {
			expanded = slices.DeleteFunc(expanded, func(other bm25.Term) bool { return other.Of == "" && other.Text == t.Text })
		}
		add := func(texts []string, weight float64, part int) {
			for _, text := range texts {
				expanded = append(expanded, bm25.Term{Text: text, Weight: weight * t.Weight, Of: t.Text, Part: part, Word: t.Word, Kind: bm25.Compound})
			}
		}
		add(found.forms, compoundWeight, 0)
		weight := compoundWeight
		if known || len(found.forms) > 0 {
			weight = partWeight
		}
		for i, texts := range found.parts {
			add(texts, weight, i+1)
		}
	}
	slices.SortStableFunc(expanded, bm25.ByText)
	return expanded, nil
}

// misspelled reports whether the corrector knows what an unknown word stands for.
func (e extent) misspelled(t *bm25.Term, allowed []bm25.Bitmap) bool {
	return correctable(t) && len(spelling{e.content.index, allowed, word(t), t.Text}.nearest()) > 0
}

// compound returns what allowed texts have for a word.
func (e extent) compound(g *grammar, t *bm25.Term, allowed []bm25.Bitmap) *compound {
	hash := retrieval.HashText(t.Text)
	if allowed == nil {
		if c := g.words.At(hash); c != nil && c.term == t.Text {
			return c
		}
	}
	s := splitter{grammar: g, index: e.content.index, allowed: allowed, budget: compoundBudget, term: t.Text}
	c := &compound{term: strings.Clone(t.Text)}
	folded := analysis.Fold(word(t))
	c.forms = s.forms(folded)
	c.parts, c.sure = s.parts(folded, 1)
	if c.sure = c.sure || len(c.forms) > 0; allowed == nil {
		g.words.Put(hash, c)
	}
	return c
}

// A splitter looks up one word.
type splitter struct {
	*grammar
	index   *bm25.Index
	allowed []bm25.Bitmap
	budget  bm25.Budget
	term    string // of the whole word
}

// base returns a word without its inflection, "" if it is too short to be a part of others.
func (s *splitter) base(word string) string {
	base := word
	if term := analysis.TermOf(word); len(term) >= leastPart && strings.HasPrefix(word, term) {
		base = term
	}
	for i := len(word) - 1; i >= sureStem; i-- {
		if s.endings[word[i:]] {
			base = base[:min(len(base), i)]
		}
		if i <= len(word)-3 {
			break
		}
	}
	if len(base) < leastPart {
		return ""
	}
	return base
}

// forms returns the words of texts that contain a word, or are inflections of it: these first.
func (s *splitter) forms(word string) []string {
	base := s.base(word)
	if base == "" {
		return nil
	}
	type form struct {
		term string
		rank int
	}
	var found []form
	for _, stem := range []string{base, analysis.Umlaut(base)} {
		if stem == "" {
			continue
		}
		s.index.Containing(stem, s.allowed, &s.budget, func(term string) bool {
			rank := s.rank(term, stem)
			if rank >= 0 && term != s.term && !slices.ContainsFunc(found, func(f form) bool { return f.term == term }) {
				found = append(found, form{term, rank})
			}
			return len(found) < 8*mostForms
		})
	}
	slices.SortFunc(found, func(a, b form) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.term), len(b.term)), cmp.Compare(a.term, b.term))
	})
	var forms []string
	for _, f := range found[:min(len(found), mostForms)] {
		forms = append(forms, f.term)
	}
	return forms
}

// rank returns 0 if a term is an inflection of a stem, 1 if it begins or ends with it, 2 if it
// contains it, and -1 if it contains it by chance.
func (s *splitter) rank(term, stem string) int {
	least := leastRest
	if len(stem) < sureStem {
		least++
	}
	best := -1
	for _, i := range [...]int{strings.Index(term, stem), strings.LastIndex(term, stem)} {
		before, after := term[:i], term[i+len(stem):]
		rank := 2
		switch ends := s.endings[after]; {
		case before == "" && ends:
			rank = 0
		case before == "" && len(after) >= least, len(before) >= least && ends:
			rank = 1
		case len(before) < least || len(after) < least || len(stem) < sureStem:
			continue
		}
		if best < 0 || rank < best {
			best = rank
		}
	}
	return best
}

// The quality of a part of a word.
const (
	unknownPart = iota
	beginning   // of a word of the texts
	wholeWord   // a word of the texts
)

// quality reports whether texts have a part as a word.
func (s *splitter) quality(part string) (quality int) {
	base := s.base(part)
	if base == "" {
		return unknownPart
	}
	s.index.Beginning(base, s.allowed, func(term string) bool {
		switch rest := term[len(base):]; {
		case term == s.term:
		case s.endings[rest]:
			quality = wholeWord
		case len(rest) >= leastRest:
			quality = max(quality, beginning)
		}
		return quality != wholeWord
	})
	return quality
}

// parts returns what texts have for the parts of a word, and whether all parts are words. Parts
// that no text has are left out. A part may be split in turn so many times.
func (s *splitter) parts(word string, times int) (parts [][]string, sure bool) {
	if len(word) < leastPart+leastRest {
		return nil, false
	}
	best, left, right, whole := 0, "", "", false
	firsts := make([]int, len(word)) // the quality of the part before, plus 1; 0 if not known yet
	for i := range word {
		if i < leastRest || len(word)-i < leastRest {
			continue
		}
		r := s.quality(word[i:])
		for link := range s.links {
			first, ok := strings.CutSuffix(word[:i], link)
			if !ok || len(first) < leastRest {
				continue
			}
			if firsts[len(first)] == 0 {
				firsts[len(first)] = s.quality(first) + 1
			}
			l := firsts[len(first)] - 1
			if score := worth(l, r, len(first), len(word)-i); score > best {
				best, left, right, whole = score, first, word[i:], l == wholeWord && r == wholeWord
			}
		}
	}
	if best == 0 {
		return s.contained(word), false
	}
	for _, part := range []string{left, right} {
		if forms := s.forms(part); len(forms) > 0 {
			parts = append(parts, forms)
		} else if times > 0 {
			more, _ := s.parts(part, times-1)
			parts = append(parts, more...)
		}
	}
	return parts, whole
}

// worth returns how good a cut is, given the qualities and lengths of both sides; 0 if it is not
// one.
func worth(left, right, first, second int) int {
	switch {
	case left > unknownPart && right > unknownPart:
		return 200 + 50*(left+right) + min(first, second)
	case right == wholeWord && second >= sureStem:
		return 150 + second
	case left == wholeWord && first >= sureStem:
		return 100 + first
	case max(left, right) == beginning && (left == beginning && first > sureStem || right == beginning && second > sureStem):
		return 50 + max(first, second)
	}
	return 0
}

// contained returns the words that have the longest ending of a word, else the longest beginning,
// as a part.
func (s *splitter) contained(word string) [][]string {
	for i := leastRest; i <= len(word)-sureStem; i++ {
		if utf8.RuneStart(word[i]) {
			if forms := s.forms(word[i:]); len(forms) > 0 {
				return [][]string{forms}
			}
		}
	}
	for i := len(word) - leastRest; i >= sureStem; i-- {
		if utf8.RuneStart(word[i]) {
			if forms := s.forms(word[:i]); len(forms) > 0 {
				return [][]string{forms}
			}
		}
	}
	return nil
}
