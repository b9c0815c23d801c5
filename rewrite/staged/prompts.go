package staged

import (
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A Prompt holds the prompts of a stage as the insides of JSON strings, without quotes. The user
// prompt is in pieces.
type Prompt struct {
	System []byte
	User   [][]byte
}

// Escaped returns a Prompt for unescaped texts.
func Escaped(system, user string) Prompt {
	return Prompt{chat.AppendEscaped(nil, system), [][]byte{chat.AppendEscaped(nil, user)}}
}

// size returns the total size in bytes.
func (p *Prompt) size() int {
	n := len(p.System)
	for _, piece := range p.User {
		n += len(piece)
	}
	return n
}

// Prompts builds the prompts of the stages of one request. They equal those of Chain.Prompt, but
// values that several stages use, such as the sources, are escaped only once. It is not safe for
// concurrent use.
type Prompts struct {
	chain    *Chain
	in       Inputs
	made     [][]byte // escaped value of placeholder p at index len(inputs)+p; nil if not built yet
	encoding string   // by which the outputs in made were counted
}

// Prompts returns the Prompts of a request before its first stage.
func (c *Chain) Prompts(in Inputs) *Prompts {
	p := &Prompts{chain: c, in: in, made: make([][]byte, len(inputs)+len(c.Stages))}
	p.Replace(in.Context)
	return p
}

// Replace replaces the sources, which are as in Inputs.Context.
func (p *Prompts) Replace(sources []byte) {
	if len(sources) == 0 {
		sources = []byte(noSources)
	}
	p.made[len(inputs)+context] = sources
}

// Add adds the output of the next stage.
func (p *Prompts) Add(output string) { p.in.Outputs = append(p.in.Outputs, output) }

// Of returns the prompt of stage i for model m. It must not be modified.
func (p *Prompts) Of(i int, m model.Model) Prompt {
	if p.in.Counter = m.Counter; m.Encoding != p.encoding {
		p.encoding = m.Encoding
		for place := range p.in.Outputs {
			p.made[len(inputs)+place] = nil
		}
	}
	t := &p.chain.templates[i]
	user := make([][]byte, 0, 2*len(t.places)+1)
	for n, place := range t.places {
		made := &p.made[len(inputs)+place]
		if *made == nil {
			text := p.chain.value(place, &p.in)
			*made = chat.AppendEscaped(make([]byte, 0, len(text)*17/16+16), text)
		}
		user = append(user, t.escaped[n], *made)
	}
	return Prompt{p.chain.systems[i], append(user, t.escaped[len(t.places)])}
}
