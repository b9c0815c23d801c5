package rewrite

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// A sourceList is the content of the sources element.
type sourceList struct {
	*meter
	fixed *fixedTexts
	known retrieval.Counter // the meter's counter, extended by counts that the search engine stored; nil until needed

	presence       presentMessages // for finding texts in the request's own messages
	firstID        int             // the number before the id of the first source
	bare           []sourceBlock   // rendered sources by relevance, with ids firstID+1 to firstID+n, without neighbours
	blocks         []sourceBlock   // the same, possibly with neighbours
	parts          []part          // the last rendering
	ledger         []SourceEntry   // parallel to blocks
	neighbourTexts []string        // texts of neighbours added in this or an earlier attempt
	skippedPresent bool            // a neighbour was left out because the messages contain its text

	beside func(src *retrieval.Source, n int) (text string, ok bool) // reads chunk n of src's document, if it is in src's section
}

// sourceBlock is one source as rendered in the prompt: an opening line, the text, a closing line.
type sourceBlock struct {
	source *retrieval.Source
	raw    string // its text and that of neighbouring chunks added to it
	head   string // ends with a line feed
	body   string // neutralised, without a line feed at its end
	part          // the whole block; its text is built when it is added
	ofBody int    // tokens of body

	result *searchResult // set if the source becomes a block of the type search_result
}

// whole returns the whole block, with the line that closes a source.
func (b *sourceBlock) whole(closing string) part {
	if b.part.text == "" {
		b.part.text = b.head + b.body + closing
		if b.result != nil {
			b.part.json = b.result.json(b.body)
		}
	}
	return b.part
}

// newBlock renders a source under an id and neutralises its text. Text already neutralised at
// ingest passes unchanged.
func newBlock(s *retrieval.Source, id int, p *Policy) sourceBlock {
	return sourceBlock{source: s, raw: s.Text, head: p.Head(s, id, p.Template.Tags()), body: p.SafeText(s.Text)}
}

// block renders a source under an id.
func (s *sourceList) block(src *retrieval.Source, id int) sourceBlock {
	if !s.fixed.searchResults {
		return newBlock(src, id, s.policy)
	}
	return newResult(src, id, s.policy)
}

// take renders and counts all sources once, before the room is known.
func (s *sourceList) take(r *renderings, found []retrieval.Source) {
	s.ledger = make([]SourceEntry, len(found))
	for i := range found {
		src := &found[i]
		id := s.firstID + i + 1
		b, ok := r.of(src, id)
		if !ok {
			b = s.block(src, id)
		}
		s.bare = append(s.bare, b)
		s.ledger[i] = newEntry(src)
	}
	for i := range s.bare {
		if b := &s.bare[i]; b.tokens == 0 {
			*b = r.keep(s.weighed(*b), s.firstID+i+1, s.fixed.sourceClose.text)
		}
	}
}

// counts returns the meter's counter, extended by the counts that the search engine stored.
func (s *sourceList) counts() retrieval.Counter {
	if s.known == nil {
		var counted []tokens.Counted
		for i := range s.bare {
			if src := s.bare[i].source; src.Tokens > 0 && s.bare[i].body == src.Text {
				counted = append(counted, tokens.Counted{Text: src.Text, Tokens: src.Tokens})
			}
		}
		s.known = tokens.WithKnownCounts(s.counter, counted...)
	}
	return s.known
}

// weighed returns a block with its tokens counted, after its head or body has changed.
func (s *sourceList) weighed(b sourceBlock) sourceBlock {
	n, exact := tokens.Sum(s.counts(), b.head, b.body, s.fixed.sourceClose.text)
	head, exactHead := s.counter.Count(b.head)
	b.part = part{tokens: n, exact: exact && exactHead}
	s.allExact = s.allExact && b.exact
	b.ofBody = max(0, n-head-s.fixed.sourceClose.tokens)
	return b
}

// weigh drops all neighbours and counts the sources.
func (s *sourceList) weigh() int {
	s.blocks = append(s.blocks[:0], s.bare...)
	for i := range s.ledger {
		s.ledger[i].Neighbours = 0
	}
	return s.size(len(s.blocks))
}

func (s *sourceList) whole() selection { return s.first(len(s.blocks)) }

// first selects the n best sources whole.
func (s *sourceList) first(n int) selection {
	for i := range n {
		s.keep(i, Included, "", "")
	}
	return s.show(n)
}

// cut selects the best sources that fit whole. If not even the first one fits, its text is cut.
func (s *sourceList) cut(room int) selection {
	n := len(s.blocks)
	for n > 0 && s.size(n) > room {
		n--
	}
	s.drop(n, ExcludedBudget, "beyond the token budget")
	if n == 0 {
		return s.cutFirst(room)
	}
	return s.first(n)
}

// cutFirst cuts the text of the best source so that it fits alone.
func (s *sourceList) cutFirst(room int) selection {
	if len(s.blocks) == 0 {
		return selection{}
	}
	first := s.blocks[0]
	text, _ := s.shorten(first.body, room, func(text string) int {
		first.body = text
		first = s.weighed(first)
		return s.element([]sourceBlock{first}).tokens
	})
	if text == "" {
		return selection{}
	}
	s.blocks[0] = first
	s.keep(0, Cut, ExcludedBudget, detailCut)
	return s.render(s.blocks[:1])
}

func (s *sourceList) leaveOut(reason retrieval.ExcludeReason, detail string) {
	s.drop(0, reason, detail)
}

// drop marks source n and all after it as left out.
func (s *sourceList) drop(n int, reason retrieval.ExcludeReason, detail string) {
	for i := n; i < len(s.ledger); i++ {
		e := &s.ledger[i]
		e.ID, e.Inclusion, e.Tokens, e.Demand, e.Reason, e.Detail = 0, Excluded, 0, s.bare[i].tokens, reason, detail
	}
}

// keep records in the ledger that source i is added with its current block.
func (s *sourceList) keep(i int, fate Inclusion, reason retrieval.ExcludeReason, detail string) {
	n, e := s.blocks[i].tokens, &s.ledger[i]
	e.ID, e.Inclusion, e.Tokens, e.Reason, e.Detail = s.firstID+i+1, fate, n, reason, detail
	e.Demand = max(n, s.bare[i].tokens)
}

// element returns the token counts of a sources element with the given blocks, without parts. A
// long element repeats the rules at its end.
func (s *sourceList) element(blocks []sourceBlock) selection {
	f := s.fixed
	t := selection{tokens: f.opening.tokens + f.close.tokens, rules: f.inElement}
	for i := range blocks {
		t.tokens += blocks[i].tokens
		t.text += blocks[i].ofBody
	}
	if t.tokens > closingAbove {
		t.tokens += f.closing.tokens
		t.rules += f.closing.tokens
	}
	return t
}

// render returns a sources element with the given blocks.
func (s *sourceList) render(blocks []sourceBlock) selection {
	t := s.element(blocks)
	s.parts = append(s.parts[:0], s.fixed.opening)
	for i := range blocks {
		s.parts = append(s.parts, blocks[i].whole(s.fixed.sourceClose.text))
	}
	if t.rules > s.fixed.inElement {
		s.parts = append(s.parts, s.fixed.closing)
	}
	t.parts = append(s.parts, s.fixed.close)
	s.parts = t.parts
	return t
}

// renderings caches sources as rendered in prompts of a policy, with their token counts. New
// questions mostly find sources that others found before: in a small base the same chunks, in a
// large one the popular ones.
type renderings struct {
	memo     *memo
	policy   string // the policy's digest; "" disables caching
	encoding string
	salt     uint64 // a hash of policy and encoding
}

func (m *memo) renderings(j *job) renderings {
	r := renderings{memo: m, policy: j.policy.Digest, encoding: j.model.Encoding}
	if r.policy != "" && j.searchResults {
		r.policy += "+search_result"
	}
	r.salt = 31*retrieval.HashText(r.policy) + retrieval.HashText(r.encoding)
	return r
}

// A renderedSource is a cached source under one id, with everything that it depends on.
type renderedSource struct {
	policy, encoding string
	id               int
	source           shownSource
	block            sourceBlock // without source and raw
}

// A shownSource holds the fields of a source that its rendering depends on.
type shownSource struct {
	kind, knowledge, doc, name, section, date, text string
	tokens                                          int
}

func shown(src *retrieval.Source) shownSource {
	return shownSource{src.Type, src.Knowledge, src.Doc, src.Name, src.Section, src.Date, src.Text, src.Tokens}
}

// hash covers only what identifies a chunk, because hashing its text takes longer.
func (r *renderings) hash(src *retrieval.Source, id int) uint64 {
	return 31*(31*(31*r.salt+retrieval.HashText(src.Doc))+uint64(src.Chunk)) + uint64(id) //nolint:gosec // not negative
}

// of returns the cached block of a source under an id, counted; ok is false if there is none.
func (r *renderings) of(src *retrieval.Source, id int) (b sourceBlock, ok bool) {
	if r.policy == "" {
		return b, false
	}
	k := r.memo.blocks.At(r.hash(src, id))
	if k == nil || k.id != id || k.policy != r.policy || k.encoding != r.encoding || k.source != shown(src) {
		return b, false
	}
	b = k.block
	b.source, b.raw = src, src.Text
	return b, true
}

// keep caches a block without neighbours whose count is exact, and returns the block in its
// cached form.
func (r *renderings) keep(b sourceBlock, id int, closing string) sourceBlock {
	if r.policy == "" || !b.exact || len(b.raw)+len(b.head) > maxRemembered {
		return b
	}
	whole := b.whole(closing)
	if whole.json == nil {
		whole.json = chat.AppendEscaped(make([]byte, 0, len(whole.text)+len(whole.text)/16), whole.text)
	}
	kept := b
	kept.part, kept.head, kept.body = whole, whole.text[:len(b.head)], whole.text[len(b.head):len(whole.text)-len(closing)]
	k := &renderedSource{policy: r.policy, encoding: r.encoding, id: id, source: shown(b.source), block: kept}
	// Do not retain b.raw: a source's text shares its memory with its neighbours.
	if k.block.raw, k.block.source, k.source.text = "", nil, kept.body; b.body != b.raw {
		k.source.text = strings.Clone(b.raw)
	}
	r.memo.blocks.Put(r.hash(b.source, id), k)
	return kept
}

// Safe neutralises text: nothing in the result looks like one of Sidenote's tags, like the number
// of a source (in plain format) or like the heading of a component (with headings). It trims
// blank lines at both ends, because a blank first line would merge with the line feed of the tag
// above it into another token.
func (s *Style) Safe(text string, ours tags.Vocabulary, components func() []string) string {
	body, _ := ours.Neutralise(text, s.Escape == EscapeAll)
	if s.SourcesFormat == SourcesPlain {
		body = withoutNumbers(body)
	}
	if s.ComponentsFormat == ComponentsHeadings {
		body = withoutHeadings(body, components)
	}
	body = strings.TrimRight(body, " \t\n")
	for {
		line, rest, more := strings.Cut(body, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return body
		}
		body = rest
	}
}

// withoutNumbers replaces square brackets around numbers at the beginnings of lines by round
// ones.
func withoutNumbers(text string) string {
	if !strings.ContainsAny(text, "[\uff3b") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
		open, size := utf8.DecodeRuneInString(rest)
		inside := strings.TrimLeftFunc(rest[size:], func(r rune) bool { return unicode.IsDigit(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
		end, endSize := utf8.DecodeRuneInString(inside)
		number := rest[size : len(rest)-len(inside)]
		if (open == '[' || open == '\uff3b') && (end == ']' || end == '\uff3d') && strings.ContainsFunc(number, unicode.IsDigit) {
			lines[i] = line[:len(line)-len(rest)] + "(" + number + ")" + inside[endSize:]
		}
	}
	return strings.Join(lines, "")
}

// withoutHeadings turns lines that look like the heading of a component or of the sources into
// second-level headings, whatever their case and characters.
func withoutHeadings(text string, components func() []string) string {
	if !strings.ContainsAny(text, "#\uff03") {
		return text
	}
	ours := tags.NewVocabulary(append([]string{SourcesName}, components()...)...)
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeftFunc(line, blank)
		sign, size := utf8.DecodeRuneInString(rest)
		if sign != '#' && sign != '\uff03' {
			continue
		}
		name := strings.TrimFunc(strings.TrimRight(strings.TrimRightFunc(rest[size:], blank), "#"), blank)
		if name != "" && !strings.ContainsFunc(name, unicode.IsSpace) && ours.Count("<"+name+">") > 0 {
			lines[i] = line[:len(line)-len(rest)] + "#" + rest
		}
	}
	return strings.Join(lines, "")
}

// absent returns the sources to be fitted. It leaves out sources without text and those whose
// text the messages already contain; count is the number of the latter. If none is left out it
// returns found.Sources itself.
func (j *job) absent(m *memo, found *retrieval.Result) (absent []retrieval.Source, count int) {
	sources := found.Sources
	// Text after the last user message, such as the rounds of a tool loop, must not change what
	// is added: each round then sends the same prefix, which upstream prompt caches need.
	j.presence = presentMessages{Request: j.req, Last: j.last, Messages: &j.messages}
	if len(sources) == 0 {
		return sources, 0
	}
	j.presence.Hidden = j.taken.hidden()
	texts := m.patternsOf(j, found)
	there := texts.FindIn(&j.presence)
	if there == nil && !texts.AnyBlank() && len(j.given) == 0 {
		return sources, 0
	}
	absent = make([]retrieval.Source, 0, len(sources))
	for i := range sources {
		s := &sources[i]
		switch {
		case texts.Blank(i):
			j.skipped = append(j.skipped, outEntry(s, ExcludedNoText, "has no text"))
		case there != nil && there[i]:
			j.skipped = append(j.skipped, outEntry(s, ExcludedPresent, "its text is already in the messages"))
			count++
		case len(j.given) > 0 && slices.Contains(j.given, GivenText(s.Text)):
			j.skipped = append(j.skipped, outEntry(s, ExcludedPresent, "it was given in an earlier turn"))
			count++
		default:
			absent = append(absent, *s)
		}
	}
	return absent, count
}

// appTags counts tags of Sidenote's vocabulary in the application's messages, where somebody may
// try to forge a source. Most English requests have no byte that can begin a tag and are not
// scanned; otherwise results are cached per message.
func appTags(r *chat.Request, messages *model.MessageCosts) (n int) {
	if !r.MayHoldTags() {
		return 0
	}
	r.EachText(-1, func(i, part int, raw []byte) {
		n += messages.Remember(i, tagsIn+uint64(part), func() int { return tags.Vocabulary{}.Count(chat.Unquote(raw)) })
	})
	return n
}

// Keys for what is cached per message: badUTF8 for all its texts, tagsIn plus the index of a text
// for each. Other keys are random.
const (
	badUTF8 uint64 = 1
	tagsIn  uint64 = 2
)
