package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// A part is a text that is added whole or not at all. It may be shared and is never changed.
type part struct {
	text   string
	json   []byte // the text as in a JSON string; nil if not cached
	tokens int    // of the text alone
	exact  bool   // tokens is exact, not just an upper bound
}

// part counts text and returns it as a part.
func (m *meter) part(text string) part {
	n, exact := m.counter.Count(text)
	m.allExact = m.allExact && exact
	return part{text: text, tokens: n, exact: exact}
}

// known returns the part's tokens; 0 if they are only an upper bound.
func (p *part) known() int {
	if !p.exact {
		return 0
	}
	return p.tokens
}

// inJSON returns the text as in a JSON string.
func (p *part) inJSON() []byte {
	if p.json != nil {
		return p.json
	}
	return chat.AppendEscaped(make([]byte, 0, len(p.text)+len(p.text)/16), p.text)
}

// fixedTexts are the texts around sources and components. They usually depend only on the policy,
// so they are cached, like renderings.
type fixedTexts struct {
	fixedKey
	before, behind part    // the template's texts before and after the context, without rules
	withRules      [2]part // the same with the rules, if the template has {{RULES}}
	ruleTokens     int     // tokens of the rules in withRules; 0 if there are none
	rules          part    // the rules, if placed in the block outside the sources element
	opening        part    // text above the first source, including the rules or the notice if placed there
	closing        part    // the line after the last source of a long sources element
	close          part
	sourceClose    part // text after each source

	around    int // tokens of the template's texts, rules included, and of rules
	inElement int // tokens of the rules or the notice in opening
	exact     bool
}

// A fixedKey is what fixedTexts depend on if the template has no {{QUERY}}.
type fixedKey struct {
	policy, encoding string // as in renderings
	formatIsText     bool
	rulesInBlock     bool
	notice           bool
}

func (k *fixedKey) hash() uint64 { return retrieval.HashText(k.policy) }

// fixedTexts returns the fixed texts for a request, with or without the notice that there are no
// sources.
func (m *memo) fixedTexts(j *job, notice bool) *fixedTexts {
	k := fixedKey{j.policy.Digest, j.model.Encoding, j.req.TextFormat, j.rulesInBlock, notice}
	if k.policy == "" || j.policy.Template.HasQuery() {
		return newFixedTexts(j, k)
	}
	f := m.fixed.At(k.hash())
	if f == nil || f.fixedKey != k {
		f = newFixedTexts(j, k)
		for _, p := range [...]*part{&f.before, &f.behind, &f.withRules[0], &f.withRules[1], &f.rules, &f.opening, &f.closing, &f.close} {
			p.json = p.inJSON()
		}
		m.fixed.Put(k.hash(), f)
	}
	return f
}

func newFixedTexts(j *job, k fixedKey) *fixedTexts {
	p, m := j.policy, meter{counter: j.model.Counter, allExact: true}
	before, behind := p.Template.Around(j.safeQuery(), "")
	d, closing := p.Delimiters(), p.Closing(k.formatIsText)
	inTemplate, inBlock, inElement := "", "", p.Rules(k.formatIsText, k.rulesInBlock)
	switch {
	case p.NoRules || p.Template.HasRules():
		if !p.NoRules {
			inTemplate = strings.TrimSuffix(inElement, "\n")
		}
		inElement, closing = "", ""
		d = p.BareDelimiters()
	case k.rulesInBlock:
		inBlock, inElement = inElement, ""
	}
	if k.notice {
		inElement = noticeEmpty
	}
	f := &fixedTexts{
		fixedKey: k,
		before:   m.part(before), behind: m.part(behind), rules: m.part(inBlock),
		opening: m.part(d.Open + inElement), closing: m.part(closing), close: m.part(d.Close), sourceClose: m.part(d.SourceClose),
		inElement: m.count(inElement),
	}
	if inTemplate != "" {
		before, behind = p.Template.Around(j.safeQuery(), inTemplate)
		f.withRules, f.ruleTokens = [2]part{m.part(before), m.part(behind)}, m.count(inTemplate)
	}
	f.around = m.count(strings.TrimLeft(before+behind, "\r\n")) + f.rules.tokens
	f.exact = m.allExact
	return f
}
