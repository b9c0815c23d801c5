package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tags"
)

// absent returns the sources that are to be fitted: it leaves out those whose text the
// messages hold already, counted, and those without text. It returns those of
// found themselves if none is left out.
func (j *job) absent(m *memo, found *retrieval.Result) (absent []retrieval.Source, count int) {
	sources := found.Sources
	// What follows the last user message, the rounds of a tool loop, must not change what is
	// added: each round then sends the same prefix, which upstream prompt caches need.
	j.presence = presentMessages{Request: j.req, Last: j.last, Messages: &j.messages}
	if len(sources) == 0 {
		return sources, 0
	}
	j.presence.Hidden = j.taken.hidden()
	texts := m.patternsOf(j, found)
	there := texts.FindIn(&j.presence)
	if there == nil && !texts.AnyBlank() {
		return sources, 0
	}
	absent = make([]retrieval.Source, 0, len(sources))
	for i := range sources {
		s := &sources[i]
		switch {
		case texts.Blank(i):
			j.skipped = append(j.skipped, outEntry(s, ExcludedNoText, "has no text"))
		case there != nil && there[i]:
			j.skipped = append(j.skipped, outEntry(s, ExcludedPresent, "stands in the messages already"))
			count++
		default:
			absent = append(absent, *s)
		}
	}
	return absent, count
}

// appTags counts tags of our vocabulary in the application's messages: somebody may try
// to forge a source. In most requests in English no byte can begin a tag, and nothing is
// scanned; elsewhere a message is scanned when it is seen first.
func appTags(r *Request, messages *model.MessageCosts) (n int) {
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
