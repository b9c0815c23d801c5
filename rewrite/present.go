package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/cost"
	"sidenote/rewrite/tags"
)

// A presence finds texts in a request's messages up to the last user message. What
// follows it, the rounds of a tool loop, must not change what is added: each round then
// sends the same prefix, which upstream prompt caches need.
type presence struct {
	req      *Request
	last     int // index of the last message that is searched; -1: all are
	messages *cost.Messages
}

// contains tells whether the messages hold a text already.
func (p *presence) contains(text string) bool {
	return newPatterns(1, func(int) string { return text }).findIn(p) != nil
}

// absent returns the sources that are to be fitted: it leaves out those whose text the
// messages hold already, counted in present, and those without text. It returns those of
// found themselves if none is left out.
func (j *job) absent(m *memo, found *retrieval.Result) (absent []retrieval.Source, present int) {
	sources := found.Sources
	j.presence = presence{j.req, j.last, j.messages}
	if len(sources) == 0 {
		return sources, 0
	}
	texts := m.patternsOf(found)
	there := texts.findIn(&j.presence)
	if there == nil && texts.blanks == 0 {
		return sources, 0
	}
	absent = make([]retrieval.Source, 0, len(sources))
	for i := range sources {
		s := &sources[i]
		switch {
		case texts.texts[i] == "":
			j.skipped = append(j.skipped, outEntry(s, ExcludedNoText, "has no text"))
		case there != nil && there[i]:
			j.skipped = append(j.skipped, outEntry(s, ExcludedPresent, "stands in the messages already"))
			present++
		default:
			absent = append(absent, *s)
		}
	}
	return absent, present
}

// appTags counts tags of our vocabulary in the application's messages: somebody may try
// to forge a source. In most requests in English no byte can begin a tag, and nothing is
// scanned; elsewhere a message is scanned when it is seen first.
func appTags(r *Request, messages *cost.Messages) (n int) {
	if !r.MayHoldTags() {
		return 0
	}
	r.EachText(-1, func(i, part int, raw []byte) {
		n += messages.Remember(i, tagsIn+uint64(part), func() int { return tags.Vocabulary{}.Count(chat.Unquote(raw)) })
	})
	return n
}

// What is remembered of a message: of its texts as a whole, or, with the index of the text
// added, of each. Other numbers are random.
const (
	badUTF8 uint64 = 1
	tagsIn  uint64 = 2
)
