package rewrite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tokens"
)

// A ChunkPolicy says how the typed chunks of requests become messages.
type ChunkPolicy struct {
	MaxTokens int            // budget of their messages, in the model's tokens; 0 is chunks.DefaultMaxTokens
	Placement ChunkPlacement // "" is ChunksFirst
	Renderers []chunks.Rule  // before the table of package chunks

	Oversize chunks.Oversize `json:",omitempty"` // where a request does not say; "" is chunks.OversizeExclude
}

// ChunkPlacement says where the messages of chunks stand. Those of the role system join the
// system message in any case.
type ChunkPlacement string

// The placements of chunks. They never part a call of a tool from its answer.
const (
	ChunksFirst          ChunkPlacement = "before_conversation" // behind the system and developer messages that come first
	ChunksBeforeLastUser ChunkPlacement = "before_last_user"
)

// Chunks tell what became of a request's chunks; nil if it has none.
type Chunks struct {
	ledger chunks.Ledger
	edits  []Edit           // of the body as it came, sorted
	whole  []chunks.Content // what went in uncut
	notes  []string         // of what the request asked for and the policy does not allow
}

// hidden returns what the messages made of chunks hold as strings of JSON with escapes.
func (c *Chunks) hidden() (texts []string) {
	if c == nil {
		return nil
	}
	for i := range c.whole {
		texts = append(texts, c.whole[i].Escaped()...)
	}
	return texts
}

// TakeChunks puts the messages of the request's chunks into its body and takes the body field
// out. It returns that request, the policy for it, and what else the request asks for. From
// then on those messages are read, searched and counted as if the application had written
// them. A request without chunks is returned as it is.
//
// The error says why that cannot be done: an *OptionError or a *BodyError. Such a request is
// refused in every mode, because without its chunks it is another one.
func (rw *Rewriter) TakeChunks(p Policy, req *Request, o Options) (Policy, *Request, Options, error) {
	if o.Chunks == nil {
		return p, req, o, nil
	}
	j := rw.begin(&p, req)
	defer rw.release(j)
	taken, err := rw.assembleChunks(j, o)
	if err != nil {
		return p, req, o, err
	}
	whole, err := Parse(ApplyEdits(nil, req.Body, taken.edits))
	if err != nil {
		if o.Taken = taken; req.Empty && len(o.Chunks) > 0 {
			err = &OptionError{"sidenote.chunks", "none of them is in a message, and there are no messages"}
		}
		return p, req, o, err
	}
	if _, last := req.Question(); last < 0 && o.Query == "" {
		o.Query = chat.ClipQuestion(chunks.LastOfUser(o.Chunks))
	}
	o.Chunks, o.Context, o.Taken = nil, nil, taken
	p.Template = p.Template.Protecting(slices.Concat(chunks.Tags(), chunks.TagsOf(p.Chunks.Renderers)))
	if p.Digest != "" {
		p.Digest += "+chunks"
	}
	return p, whole, o, nil
}

// assembleChunks builds the messages of the chunks and makes the edits that put them in.
func (rw *Rewriter) assembleChunks(j *job, o Options) (*Chunks, error) {
	m, list := &j.model, o.Chunks
	context := chunks.Options{}
	if o.Context != nil {
		context = *o.Context
	}
	context.Oversize = cmp.Or(context.Oversize, j.policy.Chunks.Oversize)
	budget := cmp.Or(j.policy.Chunks.MaxTokens, chunks.DefaultMaxTokens)
	var notes []string
	if asked := context.MaxTokens; asked > budget {
		notes = append(notes, fmt.Sprintf("context.max_tokens %d: policy allows %d", asked, budget))
	} else if asked > 0 {
		budget = asked
	}
	room, limited := j.roomForChunks(budget)
	// A model without system messages gets what would stand there in a first message of the user.
	place, operator := j.req.System(), string(chunks.RoleSystem)
	if m.NoSystem {
		place, operator = chat.Place{Frame: chat.Frame{Added: true}}, string(chunks.RoleUser)
	}
	lead, _ := around(place.Frame, nil)
	if !place.Added {
		context.Joined = &chunks.Seam{Before: place.Before, Lead: lead}
	}
	if context.MaxTokens = max(m.Counted(budget), 1); limited {
		context.Window = cmp.Or(max(m.Counted(room), 0), -1)
	}
	built, err := rw.builder(j).Build(list, context)
	if bad := (*chunks.Error)(nil); errors.As(err, &bad) {
		return nil, &OptionError{"sidenote." + bad.Param, bad.Reason}
	}
	c := &Chunks{notes: notes, ledger: chunks.Ledger{
		Total: len(list), In: len(built.Included), Budget: budget, Tokens: m.Billed(built.TokenCount), Exact: built.Exact && !m.Estimated,
		Included: built.Included, Excluded: built.Excluded, Cut: built.Cut, Messages: []chunks.Grown{},
	}}
	if limited {
		c.ledger.Budget = max(room, 0)
	}
	in := built.Included
	for i := range list {
		if len(in) == 0 || list[i].ID != in[0] {
			continue
		}
		if in = in[1:]; list[i].ID != built.Cut {
			c.whole = append(c.whole, list[i].Content)
		}
	}
	var first, others []chat.NewMessage
	for _, msg := range built.Messages {
		joined := msg.Role == chunks.RoleSystem && !place.Added
		c.ledger.Messages = append(c.ledger.Messages, chunks.Grown{Role: msg.Role, ChunkIDs: msg.ChunkIDs, Tokens: m.Billed(msg.TokenCount), Joined: joined})
		switch {
		case joined:
			if err := j.req.OperatorAmbiguity(false, utf8In(&j.messages)); err != nil {
				return nil, err
			}
			c.add(place.Offset, place.Remove, place.JSON([]string{lead, msg.Content}))
		case msg.Role == chunks.RoleSystem:
			first = append(first, chat.NewMessage{Role: operator, Text: msg.Content})
		default:
			others = append(others, chat.NewMessage{Role: string(msg.Role), Text: msg.Content})
		}
	}
	c.insert(j.req, j.policy.Chunks.Placement, first, others)
	c.edits = SortEdits(append(c.edits, StripEdits(j.req, "")...))
	return c, nil
}

// insert makes the edits for new messages. The first ones stand before all others.
func (c *Chunks) insert(req *Request, p ChunkPlacement, first, others []chat.NewMessage) {
	n := chat.BehindOperator(req)
	if p == ChunksBeforeLastUser {
		n = chat.BeforeLastUser(req)
	}
	if n == 0 {
		first, others = append(first, others...), nil
	}
	if len(first) > 0 {
		offset, text := chat.Insert(req, 0, first)
		c.add(offset, 0, text)
	}
	if len(others) > 0 {
		offset, text := chat.Insert(req, n, others)
		c.add(offset, 0, text)
	}
}

func (c *Chunks) add(offset, remove int, text []byte) {
	c.edits = append(c.edits, Edit{Name: editChunks, Offset: offset, Delete: remove, Insert: EditText{text}})
}

// builder returns the Builder for a policy and a model.
func (rw *Rewriter) builder(j *job) *chunks.Builder {
	p := j.policy
	counts, ok := rw.counts.Load(j.model.Encoding)
	if !ok {
		counts, _ = rw.counts.LoadOrStore(j.model.Encoding, tokens.NewCache(14))
	}
	b := &chunks.Builder{Counter: j.model.Counter, Counts: counts.(*tokens.Cache), MinTruncated: p.MinTruncatedTokens, Tags: chunks.TagsOf(p.Chunks.Renderers), Protected: p.Template.TagNames()}
	for i := range p.Chunks.Renderers {
		b.Renderers = append(b.Renderers, &p.Chunks.Renderers[i])
	}
	return b
}

// roomForChunks returns what the window leaves beside the application's own messages, and
// whether that is less than the budget.
func (j *job) roomForChunks(budget int) (room int, limited bool) {
	m := &j.model
	if m.Window == 0 {
		return 0, false
	}
	field := j.req.Field.Remove
	room = m.Window - m.Reserved(j.req, j.policy.ReserveOutputTokens)
	if room-(m.Bound(j.req)-(field.End-field.Start)) >= budget {
		return 0, false
	}
	c := j.messages.Count(m.Counting(), m.Window)
	room -= m.Billed(c.Sum()) + m.Reserve(c)
	return room, room < budget
}

// Tell puts what became of chunks into the ledger of their request, and its edits, which are
// those of the body that holds them already, to where they are in the body as it came. Chunks
// may be nil.
func (c *Chunks) Tell(l *Ledger) {
	if c == nil {
		return
	}
	l.Chunks = &c.ledger
	for _, note := range c.notes {
		if !slices.Contains(l.Notes, note) {
			l.Notes = append(slices.Clip(l.Notes), note)
		}
	}
	if len(c.ledger.Messages) > 0 {
		sum := l.assembly()
		sum.TotalTokens += c.ledger.Tokens
		l.Assembled = sum
	}
	if l.Components == nil { // nothing was searched
		l.Components, l.Sources = []ComponentEntry{}, []SourceEntry{}
	}
	edits := slices.Clone(c.edits)
	for _, e := range l.Edits {
		e.Offset = c.cameFrom(e.Offset)
		edits = append(edits, e)
	}
	l.Edits = SortEdits(edits)
}

// cameFrom returns the offset in the body as it came of an offset in the body with chunks.
// Inside of what was inserted it is where that stands.
func (c *Chunks) cameFrom(offset int) int {
	grown := 0
	for _, e := range c.edits {
		at := e.Offset + grown // of the insertion
		switch {
		case offset < at:
			return offset - grown
		case offset < at+e.Insert.Len():
			return e.Offset
		}
		grown += e.Insert.Len() - e.Delete
	}
	return offset - grown
}
