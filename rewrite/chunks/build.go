package chunks

import (
	"slices"

	"sidenote/rewrite/tokens"
)

// A Builder builds messages from chunks. Build does not change it, so goroutines may share it.
type Builder struct {
	// Counter counts tokens as the model does: an Encoding of package tokens, or another counter
	// whose counts add up where no token of OpenAI's can span two characters (see edge). nil
	// estimates four characters per token, and no Result is exact.
	Counter tokens.Counter
	// Renderers are tried in this order, before the table.
	Renderers []Renderer
	// Tags are the tags that Renderers write. No content may imitate them, the tags of the table
	// or the tags of sources.
	Tags []string
	// Protected are other tag names that no content may imitate, such as those of a template.
	Protected []string
	// Counts caches token counts by content. It must be used with this Counter only and may be
	// shared by Builders; nil disables caching.
	Counts *tokens.Cache
	// MinTruncated is the least number of tokens to which a chunk is cut; 0 means 100.
	MinTruncated int
}

// A Result is the result of Build. Each chunk is in either Included or Excluded.
type Result struct {
	Messages []Message `json:"messages"`
	// TokenCount is the number of tokens of the messages, including the overhead of each, but not
	// that of priming the answer. It is an upper bound if Exact is false.
	TokenCount int        `json:"token_count"`
	Exact      bool       `json:"token_count_exact"`
	Included   []string   `json:"included_chunk_ids"` // in list order
	Excluded   []Excluded `json:"excluded_chunk_ids"` // in list order
	Cut        string     `json:"cut_chunk_id,omitempty"`
}

// A Message is one message. The system message comes first, the others follow in list order.
// Consecutive messages have different roles. If the system message is joined to an existing one
// (Options.Joined), Content is the text after the lead, and TokenCount the growth of the whole.
type Message struct {
	Role       Role     `json:"role"`
	Content    string   `json:"content"` // elements separated by blank lines
	ChunkIDs   []string `json:"chunk_ids"`
	TokenCount int      `json:"token_count"`
}

// Excluded is a chunk that was left out.
type Excluded struct {
	ID     string        `json:"id"`
	Reason ExcludeReason `json:"reason"`
	Detail string        `json:"detail,omitempty"` // human-readable
}

// Build builds messages from the chunks that the options select, as far as the budget allows. An
// error is an *Error that names an option, or a chunk and its field. A system prompt larger than
// MaxTokens is an error, and under OversizeRefuse so is a larger chunk that must not be cut.
//
// It takes time and memory proportional to the number and length of the chunks.
func (b *Builder) Build(list []Chunk, o Options) (Result, error) {
	ids := make(map[string]int, len(list))
	for i := range list {
		if err := list[i].check(i); err != nil {
			return Result{}, err
		}
		if first, twice := ids[list[i].ID]; twice {
			return Result{}, wrong(field(i, "id"), "%.140q is the id of chunks[%d] already", list[i].ID, first)
		}
		ids[list[i].ID] = i
	}
	if err := o.check(ids); err != nil {
		return Result{}, err
	}
	w, err := b.newWriter()
	if err != nil {
		return Result{}, err
	}
	defer w.release()
	a, err := newAssembly(w, list, &o)
	if err != nil {
		return Result{}, err
	}
	if err := a.fit(); err != nil {
		return Result{}, err
	}
	return a.result(), nil
}

// An assembly is the state of one Build.
type assembly struct {
	*writer
	list    []Chunk
	options *Options
	blocks  []block // parallel to list
	system  lane    // for the system message
	talk    lane    // for all other messages
	used    int     // tokens of the included chunks
	cut     int     // index of the chunk that was cut, -1 if none
}

// newAssembly renders and counts every chunk that the options select.
func newAssembly(w *writer, list []Chunk, o *Options) (*assembly, error) {
	a := &assembly{writer: w, list: list, options: o, blocks: make([]block, len(list)), cut: -1}
	a.system, a.talk = w.newLane(len(list), o.SystemPrompt, o.Joined), w.newLane(len(list), "", nil)
	var only map[string]bool
	if o.Only != nil {
		only = make(map[string]bool, len(o.Only))
		for _, id := range o.Only {
			only[id] = true
		}
	}
	w.grow(list)
	for i := range list {
		blk := &a.blocks[i]
		if blk.out = o.excludes(&list[i], only); blk.out != "" {
			continue
		}
		if err := w.render(&list[i], i, blk); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// lane returns the lane of a block.
func (a *assembly) lane(b *block) *lane {
	if b.role == RoleSystem {
		return &a.system
	}
	return &a.talk
}

// result builds the Result.
func (a *assembly) result() Result {
	r := Result{TokenCount: a.used, Messages: []Message{}, Included: make([]string, 0, len(a.list)), Excluded: []Excluded{}}
	for i := range a.list {
		if blk := &a.blocks[i]; blk.out != "" {
			r.Excluded = append(r.Excluded, Excluded{a.list[i].ID, blk.out, blk.detail})
		} else {
			r.Included = append(r.Included, a.list[i].ID)
		}
	}
	r.Messages = a.messages(r.Messages, &a.system)
	r.Messages = a.messages(r.Messages, &a.talk)
	if a.cut >= 0 {
		r.Cut = a.list[a.cut].ID
	}
	r.Exact = a.exact
	return r
}

// messages appends the messages of a lane to all.
func (a *assembly) messages(all []Message, l *lane) []Message {
	if l.next(-1) < 0 {
		if l.prompt != "" {
			all = append(all, Message{RoleSystem, l.prompt, []string{}, l.tokens})
		}
		return all
	}
	// The messages share one text and one list of ids.
	size, n := len(l.prompt), 0
	for i := l.next(-1); i >= 0; i = l.next(i) {
		size, n = size+len(between)+a.blocks[i].size(), n+1
	}
	text, ids := append(make([]byte, 0, size), l.prompt...), make([]string, 0, n)
	var before *block
	start, first, tokens := 0, 0, 0
	for i := l.next(-1); i >= 0; {
		blk, next := &a.blocks[i], l.next(i)
		if len(text) > start {
			text = append(text, between...)
		}
		text, ids = a.append(text, blk), append(ids, a.list[i].ID)
		tokens += a.edge(l, before, blk) + blk.tokens
		before, i = blk, next
		if next < 0 || a.blocks[next].role != blk.role {
			all = append(all, Message{blk.role, ownString(text[start:]), ids[first:len(ids):len(ids)], tokens + a.edge(l, blk, nil)})
			start, first, tokens, before = len(text), len(ids), 0, nil
		}
	}
	return all
}

// order returns the indices of the list in the order in which chunks are tried.
func (a *assembly) order() []int {
	order := make([]int, len(a.list))
	for i := range order {
		order[i] = i
	}
	switch a.options.Fit {
	case FitRecent:
		slices.Reverse(order)
	case FitPriority:
		slices.SortStableFunc(order, func(x, y int) int { return byPriority(&a.list[x], &a.list[y], a.options.Truncate) })
	}
	return order
}
