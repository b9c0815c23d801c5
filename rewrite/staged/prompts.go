package staged

import (
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A Prompt is what a stage is asked: the insides of two JSON strings, without their quotes. That of the
// user is in pieces.
type Prompt struct {
	System []byte
	User   [][]byte
}

// Escaped is a Prompt of texts.
func Escaped(system, user string) Prompt {
	return Prompt{chat.AppendEscaped(nil, system), [][]byte{chat.AppendEscaped(nil, user)}}
}

// size is that of all of it, in bytes.
func (p *Prompt) size() int {
	n := len(p.System)
	for _, piece := range p.User {
		n += len(piece)
	}
	return n
}

// Prompts makes the prompts of the stages of one request. They are those of Chain.Prompt; but a text
// that several stages read, such as the sources, is made once. It is for one goroutine.
type Prompts struct {
	chain    *Chain
	in       Inputs
	made     [][]byte // what stands in a place, behind len(inputs); nil: nothing was made
	encoding string   // by which outputs in made were counted
}

// Prompts returns the prompts of a request, of which no stage has an output yet.
func (c *Chain) Prompts(in Inputs) *Prompts {
	p := &Prompts{chain: c, in: in, made: make([][]byte, len(inputs)+len(c.Stages))}
	p.Replace(in.Context)
	return p
}

// Replace puts other sources, as in Inputs.Context, in place of those so far.
func (p *Prompts) Replace(sources []byte) {
	if len(sources) == 0 {
		sources = []byte(noSources)
	}
	p.made[len(inputs)+context] = sources
}

// Add adds the output of the next stage.
func (p *Prompts) Add(output string) { p.in.Outputs = append(p.in.Outputs, output) }

// Of returns the prompt of the i-th stage, which a model reads. Nobody changes it.
func (p *Prompts) Of(i int, m rewrite.Model) Prompt {
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
