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

// A ChunkPolicy says how the typed chunks of a request become messages.
type ChunkPolicy struct {
	MaxTokens int            // budget of their messages, in the model's tokens; 0 means chunks.DefaultMaxTokens
	Placement ChunkPlacement // "" means ChunksFirst
	Renderers []chunks.Rule  // tried before the table of package chunks

	Oversize chunks.Oversize `json:",omitempty"` // default for requests that do not say; "" means chunks.OversizeExclude
}

// ChunkPlacement says where the messages built from chunks are inserted. Those of the role system
// always join the system message.
type ChunkPlacement string

// The placements of chunks. None separates a tool call from its result.
const (
	ChunksFirst          ChunkPlacement = "before_conversation" // after the leading system and developer messages
	ChunksBeforeLastUser ChunkPlacement = "before_last_user"
)

// ChunkResult is the result of InsertChunks; nil if the request has no chunks.
type ChunkResult struct {
	ledger chunks.Ledger
	edits  []Edit           // relative to the original body, sorted
	whole  []chunks.Content // the chunks added uncut
	notes  []string         // options that the policy did not allow
}

// hidden returns the decoded JSON strings with escapes in the added chunks, which a search of the
// messages would miss.
func (c *ChunkResult) hidden() (texts []string) {
	if c == nil {
		return nil
	}
	for i := range c.whole {
		texts = append(texts, c.whole[i].Escaped()...)
	}
	return texts
}

// InsertChunks inserts the messages built from the request's chunks into its body and removes the
// body field "sidenote". It returns the new request, the policy for it and the remaining options.
// From then on these messages are read, searched and counted like the application's own. A
// request without chunks is returned unchanged.
//
// The error is an *OptionError or a *BodyError. Such a request must be refused in every mode,
// because it means something else without its chunks.
func (rw *Rewriter) InsertChunks(p Policy, req *chat.Request, o Options) (Policy, *chat.Request, Options, error) {
	if o.Chunks == nil {
		return p, req, o, nil
	}
	j := rw.begin(&p, req)
	defer rw.release(j)
	taken, err := rw.assembleChunks(j, o)
	if err != nil {
		return p, req, o, err
	}
	whole, err := req.API.Parse(ApplyEdits(nil, req.Body, taken.edits))
	if err != nil {
		if o.ChunkResult = taken; req.Empty && len(o.Chunks) > 0 {
			err = &OptionError{"sidenote.chunks", "no chunk fits, and the request has no other messages"}
		}
		return p, req, o, err
	}
	if _, last := req.Question(); last < 0 && o.Query == "" {
		o.Query = chat.ClipQuestion(chunks.LastOfUser(o.Chunks))
	}
	o.Chunks, o.Context, o.ChunkResult = nil, nil, taken
	p.Template = p.Template.Protecting(slices.Concat(chunks.Tags(), chunks.TagsOf(p.Chunks.Renderers)))
	if p.Digest != "" {
		p.Digest += "+chunks"
	}
	return p, whole, o, nil
}

// assembleChunks builds the messages from the chunks and the edits that insert them.
func (rw *Rewriter) assembleChunks(j *job, o Options) (*ChunkResult, error) {
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
	at := j.systemPlace()
	if !at.Added {
		context.Joined = &chunks.Seam{Before: at.Before, Lead: at.lead}
	}
	if context.MaxTokens = max(m.Counted(budget), 1); limited {
		context.Window = cmp.Or(max(m.Counted(room), 0), -1)
	}
	built, err := rw.builder(j).Build(list, context)
	if bad := (*chunks.Error)(nil); errors.As(err, &bad) {
		return nil, &OptionError{"sidenote." + bad.Param, bad.Reason}
	}
	c := &ChunkResult{notes: notes, ledger: chunks.Ledger{
		Total: len(list), In: len(built.Included), Budget: budget, Tokens: m.Billed(built.TokenCount), Exact: built.Exact && !m.Estimated,
		Included: built.Included, Excluded: built.Excluded, Cut: built.Cut, Messages: []chunks.LedgerMessage{},
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
	if err := c.place(j, built.Messages, at); err != nil {
		return nil, err
	}
	c.edits = SortEdits(append(c.edits, StripEdits(j.req, "")...))
	return c, nil
}

// A systemPlace is where texts of the role system go: the end of the system message or, if that is
// to be made, a message with a role.
type systemPlace struct {
	chat.Place
	lead string // line feeds between the system message and the texts
	role string // of a new message
}

// systemPlace returns the place for chunks of the role system. If the request takes no system
// message, a user message in front takes its place.
func (j *job) systemPlace() systemPlace {
	if j.model.NoSystem || j.req.KeepsSystem() {
		return systemPlace{Place: chat.Place{Frame: chat.Frame{Added: true}}, role: string(chunks.RoleUser)}
	}
	at := systemPlace{Place: j.req.System(), role: string(chunks.RoleSystem)}
	at.lead, _ = around(at.Frame, nil)
	return at
}

// place adds the edits that insert messages built from chunks.
func (c *ChunkResult) place(j *job, messages []chunks.Message, at systemPlace) error {
	n := chat.AfterSystem(j.req)
	if j.policy.Chunks.Placement == ChunksBeforeLastUser {
		n = chat.BeforeLastUser(j.req)
	}
	var first, others []chat.NewMessage
	for _, msg := range messages {
		if msg.Role == chunks.RoleAssistant && len(others) == 0 && n == 0 && j.req.API == chat.Messages {
			msg.Role = chunks.RoleUser // a conversation begins with the user there; the tags still say whose words these are
		}
		joined := msg.Role == chunks.RoleSystem && !at.Added
		c.ledger.Messages = append(c.ledger.Messages, chunks.LedgerMessage{Role: msg.Role, ChunkIDs: msg.ChunkIDs, Tokens: j.model.Billed(msg.TokenCount), Joined: joined})
		switch {
		case joined:
			if err := j.req.OperatorAmbiguity(false, utf8In(&j.messages)); err != nil {
				return err
			}
			c.add(at.Offset, at.Remove, at.JSON([]string{at.lead, msg.Content}))
		case msg.Role == chunks.RoleSystem && j.req.API == chat.Messages && at.role == string(chunks.RoleSystem): // in a member of the body
			c.add(at.Offset, at.Remove, at.JSON([]string{msg.Content}))
		case msg.Role == chunks.RoleSystem:
			first = append(first, chat.NewMessage{Role: at.role, Text: msg.Content})
		default:
			others = append(others, chat.NewMessage{Role: string(msg.Role), Text: msg.Content})
		}
	}
	c.insert(j.req, n, first, others)
	return nil
}

// insert adds the edits for new messages. Those in first are placed before all other messages, the
// others before message n of the list.
func (c *ChunkResult) insert(req *chat.Request, n int, first, others []chat.NewMessage) {
	if n == 0 {
		first, others = append(first, others...), nil
	}
	if len(first) > 0 {
		c.insertAt(req, 0, first)
	}
	if len(others) > 0 {
		c.insertAt(req, n, others)
	}
}

func (c *ChunkResult) insertAt(req *chat.Request, n int, list []chat.NewMessage) {
	for _, in := range chat.Insert(req, n, list) {
		c.add(in.Offset, 0, in.Text)
	}
}

func (c *ChunkResult) add(offset, remove int, text []byte) {
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

// roomForChunks returns how many tokens of the window the application's own messages leave, and
// whether that is less than the budget.
func (j *job) roomForChunks(budget int) (room int, limited bool) {
	m := &j.model
	if m.Window == 0 || j.req.History.Continued() {
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

// Record records the chunks in the ledger of their request and maps the ledger's edits, which refer
// to the body with chunks, to offsets in the original body. c may be nil.
func (c *ChunkResult) Record(l *Ledger) {
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

// cameFrom maps an offset in the body with chunks to one in the original body. Offsets inside an
// insertion map to its position.
func (c *ChunkResult) cameFrom(offset int) int {
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
