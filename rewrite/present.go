package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/tags"
)

// A presence knows the texts of a request's messages up to the last of the
// user's. What follows it, the rounds of a tool loop, must not change what is
// added: each round sends the same prefix, so that upstream prompt caches hold.
type presence struct {
	req  *Request
	last int // index of the last message that counts
}

func (r *Request) presence(lastUser int) presence {
	if lastUser < 0 {
		lastUser = len(r.messages) - 1
	}
	return presence{r, lastUser}
}

// there tells whether a text next to a source stands in the messages already.
func (p *presence) there(text string) bool {
	return newPatterns(1, func(int) string { return text }).in(p) != nil
}

// absent returns the sources whose text does not stand in the request's own
// messages already; without any such, sources itself. The others are left, and
// so are those that have no text; present counts the former.
func (j *job) absent(m *memo, sources []retrieval.Source) (absent []retrieval.Source, present int) {
	j.presence = j.req.presence(j.last)
	if len(sources) == 0 {
		return sources, 0
	}
	texts := m.patternsOf(sources)
	there := texts.in(&j.presence)
	if there == nil && texts.blank == 0 {
		return sources, 0
	}
	absent = make([]retrieval.Source, 0, len(sources))
	for i, s := range sources {
		switch {
		case texts.list[i].text == "":
			j.left = append(j.left, outEntry(s, "has no text"))
		case there != nil && there[i]:
			j.left = append(j.left, outEntry(s, "stands in the messages already"))
			present++
		default:
			absent = append(absent, s)
		}
	}
	return absent, present
}

// appTags counts tags of our vocabulary in the app's own messages: somebody may
// be trying to pass for a source. Most requests hold no byte that could begin
// one.
func (r *Request) appTags() int {
	if r.seen&(markWide|markCode) == 0 && (r.seen&markTag == 0 || !mayTag(r.list.of(r.Body))) {
		return 0
	}
	n := 0
	for i := range r.messages {
		for text := range r.texts(&r.messages[i]) {
			n += tags.Count(unquote(text.of(r.Body)))
		}
	}
	return n
}
