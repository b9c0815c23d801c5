package chunks

import (
	"slices"

	"sidenote/rewrite/tokens"
)

// A Builder makes messages of chunks. Build does not change it, so that one Builder may be
// used by several goroutines.
type Builder struct {
	// Counter counts as the model does: an Encoding of package tokens, or another one whose
	// counts add up where no token of OpenAI's can span two characters (see edge). Without one,
	// four characters are taken for a token, and no Result is exact.
	Counter tokens.Counter
	// Renderers are asked before the table, in this order.
	Renderers []Renderer
	// Tags are the tags that Renderers write. No content may imitate them, nor those of the
	// table, nor the tags of sources.
	Tags []string
	// Protected are other names that no content may imitate, such as tags of a template.
	Protected []string
	// Counts remembers the counts of chunks by what they hold. It must be of this Counter
	// alone and may be shared by Builders; nil remembers nothing.
	Counts *tokens.Cache
	// MinTruncated is the least number of tokens to which a chunk is cut; 0 is 100.
	MinTruncated int
}

// A Result is what became of chunks. Included and Excluded together are all of them.
type Result struct {
	Messages []Message `json:"messages"`
	// TokenCount is what the messages cost, with what surrounds each message and without what
	// primes the answer. It is an upper bound if Exact is false.
	TokenCount int        `json:"token_count"`
	Exact      bool       `json:"token_count_exact"`
	Included   []string   `json:"included_chunk_ids"` // in the order of the list
	Excluded   []Excluded `json:"excluded_chunk_ids"` // in the order of the list
	Cut        string     `json:"cut_chunk_id,omitempty"`
}

// A Message is one message: the system message first, if there is one, then the others in the
// order of the list. No two neighbours have the same role. Of a Joined one, the content is what
// follows the Lead, and the count says by how much the whole grows.
type Message struct {
	Role       Role     `json:"role"`
	Content    string   `json:"content"` // elements parted by a blank line
	ChunkIDs   []string `json:"chunk_ids"`
	TokenCount int      `json:"token_count"`
}

// Excluded is a chunk that is in no message.
type Excluded struct {
	ID     string        `json:"id"`
	Reason ExcludeReason `json:"reason"`
	Detail string        `json:"detail,omitempty"` // for people
}

// Build makes messages of the chunks that the options take and the budget has room for. An
// error is an *Error that names a chunk and its field, or an option. A system prompt that is
// larger than the whole of MaxTokens is such an error, and under OversizeRefuse so is a chunk
// of that size that may not be cut.
//
// It takes time and memory in proportion to the chunks' number and length.
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
	system  lane    // of the system message
	talk    lane    // of all others
	used    int     // tokens of what is in
	cut     int     // index of the chunk that was cut, -1 without one
}

// newAssembly renders and counts every chunk that the options take.
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

// lane returns the lane in which a block stands.
func (a *assembly) lane(b *block) *lane {
	if b.role == RoleSystem {
		return &a.system
	}
	return &a.talk
}

// result writes the messages.
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

// messages appends the messages of a lane.
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

// order returns the indexes of the list in the order in which chunks are tried.
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
