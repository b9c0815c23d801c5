package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tags"
)

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

// appTags counts tags of Sidenote's vocabulary in the application's messages, where somebody may
// try to forge a source. Most English requests have no byte that can begin a tag and are not
// scanned; otherwise results are cached per message.
func appTags(r *Request, messages *model.MessageCosts) (n int) {
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
