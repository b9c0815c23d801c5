// Package synonyms reads lists of synonyms in the format of Apache Lucene and Solr.
//
// A line lists words or phrases of the same meaning, separated by commas: refund, money back. With
// => those on its left are also searched as those on its right, but not the reverse. # begins a
// comment line, and \ makes the next character an ordinary one. Rules do not chain.
package synonyms

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
)

const (
	mostRules  = 100_000
	mostListed = 64 // words and phrases of a rule
	mostTerms  = 6  // of a phrase
	mostFor    = 64 // alternatives of a phrase in all rules
)

// An Error is a mistake in a list.
type Error struct {
	Line, Column int // from 1, in characters
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

//go:embed default.txt
var defaultList string

// Default returns the built-in list for office and software, in English and German.
var Default = sync.OnceValue(func() *retrieval.Synonyms {
	list, err := Parse([]byte(defaultList))
	if err != nil {
		panic("BUG: default.txt: " + err.Error())
	}
	return list
})

// Parse reads a list. Its error is an *Error.
func Parse(text []byte) (*retrieval.Synonyms, error) {
	sum := sha256.Sum256(text)
	p := parser{list: &retrieval.Synonyms{Digest: analysis.Version + hex.EncodeToString(sum[:8]), Rules: map[string][]retrieval.SynonymRule{}}}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		p.line++
		if err := p.read(strings.TrimRight(line, "\r\n")); err != nil {
			return nil, err
		}
	}
	return p.list, nil
}

// Join returns the rules of all lists as one list, nil if all are nil. A phrase that several lists
// have gets the alternatives of all.
func Join(lists ...*retrieval.Synonyms) *retrieval.Synonyms {
	lists = slices.DeleteFunc(slices.Clone(lists), func(l *retrieval.Synonyms) bool { return l == nil })
	if len(lists) < 2 {
		return append(lists, nil)[0]
	}
	all := &retrieval.Synonyms{Rules: map[string][]retrieval.SynonymRule{}}
	for _, l := range lists {
		all.Digest += l.Digest
		for first, rules := range l.Rules {
			for _, r := range rules {
				joined := all.Rules[first]
				i := slices.IndexFunc(joined, func(other retrieval.SynonymRule) bool { return slices.Equal(other.Terms, r.Terms) })
				if i < 0 {
					all.Rules[first] = append(joined, retrieval.SynonymRule{Terms: r.Terms, Alternatives: slices.Clone(r.Alternatives)})
				} else {
					joined[i].Alternatives = append(joined[i].Alternatives, r.Alternatives...)
				}
			}
		}
	}
	return all
}

type parser struct {
	list  *retrieval.Synonyms
	line  int
	rules int
}

func (p *parser) fail(column int, format string, args ...any) error {
	return &Error{p.line, column, fmt.Sprintf(format, args...)}
}

// A phrase is a word or several, with its place in the line.
type phrase struct {
	terms  []string
	column int
}

// read adds the rule of a line, if it has one.
func (p *parser) read(line string) error {
	if !utf8.ValidString(line) || strings.IndexByte(line, 0) >= 0 {
		return p.fail(1, "is not UTF-8 text")
	}
	if rest := strings.TrimSpace(line); rest == "" || rest[0] == '#' {
		return nil
	}
	if p.rules++; p.rules > mostRules {
		return p.fail(1, "is rule %d; a list has at most %d", p.rules, mostRules)
	}
	sides, err := p.split(line)
	if err != nil {
		return err
	}
	left, right := sides[0], sides[len(sides)-1]
	if len(sides) == 1 && len(left) == 1 {
		return p.fail(left[0].column, "has a single word; a rule lists two or more, or has =>")
	}
	for _, from := range left {
		for _, to := range right {
			if err := p.add(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// split returns the phrases of one side, or of both sides of =>.
func (p *parser) split(line string) (sides [][]phrase, err error) {
	var side []phrase
	var text strings.Builder
	column, start := 0, 1
	end := func() error {
		words := strings.TrimSpace(text.String())
		terms := analysis.Terms(words)
		switch {
		case words == "":
			return p.fail(start, "a word is missing")
		case len(terms) == 0:
			return p.fail(start, "%.40q has only words that are not searched", words)
		case len(terms) > mostTerms:
			return p.fail(start, "%.40q has %d words; a phrase has at most %d", words, len(terms), mostTerms)
		case len(side) == mostListed:
			return p.fail(start, "is the word %d of a rule; it has at most %d", len(side)+1, mostListed)
		}
		side = append(side, phrase{terms, start})
		text.Reset()
		start = column + 1
		return nil
	}
	escaped, skip := false, false
	for i, r := range line {
		column++
		switch {
		case skip:
			skip, start = false, column+1
		case escaped:
			escaped = false
			text.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == ',':
			if err := end(); err != nil {
				return nil, err
			}
		case r == '=' && strings.HasPrefix(line[i:], "=>"):
			if len(sides) == 1 {
				return nil, p.fail(column, "a second =>")
			}
			if err := end(); err != nil {
				return nil, err
			}
			sides, side, skip = append(sides, side), nil, true
		default:
			if text.Len() == 0 && (r == ' ' || r == '\t') {
				start = column + 1
				continue
			}
			text.WriteRune(r)
		}
	}
	if escaped {
		return nil, p.fail(column, `\ ends the line`)
	}
	if err := end(); err != nil {
		return nil, err
	}
	return append(sides, side), nil
}

// add adds that texts with one phrase are searched for the other.
func (p *parser) add(from, to phrase) error {
	if slices.Equal(from.terms, to.terms) {
		return nil
	}
	rules := p.list.Rules[from.terms[0]]
	i := slices.IndexFunc(rules, func(r retrieval.SynonymRule) bool { return slices.Equal(r.Terms, from.terms) })
	if i < 0 {
		if len(rules) == mostFor {
			return p.fail(from.column, "more than %d phrases begin with %q", mostFor, from.terms[0])
		}
		rules, i = append(rules, retrieval.SynonymRule{Terms: from.terms}), len(rules)
	}
	r := &rules[i]
	if !slices.ContainsFunc(r.Alternatives, func(a []string) bool { return slices.Equal(a, to.terms) }) {
		if len(r.Alternatives) == mostFor {
			return p.fail(to.column, "%q has more than %d synonyms", strings.Join(from.terms, " "), mostFor)
		}
		r.Alternatives = append(r.Alternatives, to.terms)
	}
	p.list.Rules[from.terms[0]] = rules
	return nil
}
