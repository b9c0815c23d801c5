package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// A part is a text that goes in whole, or not at all. It may be shared and is never changed.
type part struct {
	text   string
	json   []byte // the text as in a JSON string; nil where it is made each time
	tokens int    // of the text by itself
	exact  bool   // that is their number, and no bound
}

// part counts a text.
func (m *meter) part(text string) part {
	n, exact := m.counter.Count(text)
	m.allExact = m.allExact && exact
	return part{text: text, tokens: n, exact: exact}
}

// known returns the part's tokens; 0 if they are only bounded.
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

// fixedTexts stand around sources and components, whatever these are. Mostly they depend on nothing
// but the policy, so they are remembered, as renderings are.
type fixedTexts struct {
	fixedKey
	before, behind part    // the template's, without rules
	withRules      [2]part // the same with the rules, if the template has a place for them
	ruleTokens     int     // of the rules there; 0 if it has none
	rules          part    // the fixed sentences where they stand in the block on their own
	opening        part    // what stands above the first source: else the rules, or the notice
	closing        part    // the line behind the last source of a long element
	close          part
	sourceClose    part // behind each source

	around    int // tokens of the template's texts with the rules, and of rules on their own
	inElement int // tokens of the rules in opening
	exact     bool
}

// A fixedKey is what they depend on where the template has no place for the question.
type fixedKey struct {
	policy, encoding string // as of renderings
	formatIsText     bool
	rulesInBlock     bool
	notice           bool
}

func (k *fixedKey) hash() uint64 { return retrieval.HashText(k.policy) }

// fixedTexts returns those of a request, with or without a notice that there are no sources.
func (m *memo) fixedTexts(j *job, notice bool) *fixedTexts {
	k := fixedKey{j.policy.Digest, j.model.Encoding, j.req.TextFormat, j.rulesInBlock, notice}
	if k.policy == "" || j.policy.Template.Asks() {
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
