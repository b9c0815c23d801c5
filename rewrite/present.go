package rewrite

import (
	"bytes"
	"strings"
	"unicode"

	"sidenote/retrieval"
	"sidenote/rewrite/tags"
)

// A presence knows the texts of a request's messages up to the last of the
// user's. What follows it, the rounds of a tool loop, must not change what is
// added: each round sends the same prefix, so that upstream prompt caches hold.
type presence struct {
	req     *Request
	last    int // index of the last message that counts
	longest int // bytes of the longest text
}

func (r *Request) presence(lastUser int) presence {
	p := presence{req: r, last: lastUser}
	if lastUser < 0 {
		p.last = len(r.messages) - 1
	}
	for i := range r.messages[:p.last+1] {
		for text := range r.texts(&r.messages[i]) {
			p.longest = max(p.longest, text.end-text.start)
		}
	}
	return p
}

// there tells whether a text of a source, or next to one, stands in the messages
// already.
func (p *presence) there(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > p.longest {
		return false
	}
	return p.req.holds(p.last, text)
}

// absent returns the sources whose text does not stand in the request's own
// messages already; without any such, sources itself. The others are left, and
// so are those that have no text; present counts the former.
func (j *job) absent(sources []retrieval.Source) (absent []retrieval.Source, present int) {
	j.presence = j.req.presence(j.last)
	for i, s := range sources {
		reason := ""
		switch {
		case !strings.ContainsFunc(s.Text, visible):
			reason = "has no text"
		case j.presence.there(s.Text):
			reason = "stands in the messages already"
			present++
		default:
			if j.left != nil {
				absent = append(absent, s)
			}
			continue
		}
		if j.left == nil {
			absent = append(make([]retrieval.Source, 0, len(sources)), sources[:i]...)
		}
		j.left = append(j.left, outEntry(s, reason))
	}
	if j.left == nil {
		return sources, 0
	}
	return absent, present
}

// visible tells the characters of which one makes a text: white space, controls
// and what has no width do not, and may all be gone from the prompt.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// holds tells whether one of the messages up to the last contains text. A run of bytes that every
// JSON encoder writes as they are tells mostly without decoding.
func (r *Request) holds(last int, text string) bool {
	var room [verbatimRun]byte // on the stack
	var probe []byte
	for i := range r.messages[:last+1] {
		for t := range r.texts(&r.messages[i]) {
			if t.end-t.start < len(text) {
				continue
			}
			if probe == nil {
				probe = append(room[:0], rarest(verbatim(text))...)
			}
			if bytes.Contains(t.of(r.Body), probe) && strings.Contains(unquote(t.of(r.Body)), text) {
				return true
			}
		}
	}
	return false
}

// verbatimRun is as long a run as need be, in bytes.
const verbatimRun = 48

// verbatim returns the first verbatimRun bytes of text that no JSON encoder
// escapes, or the longest there is; it may be empty.
func verbatim(text string) string {
	best, start := "", 0
	for i := range len(text) {
		if escapable(text[i]) {
			if i-start > len(best) {
				best = text[start:i]
			}
			start = i + 1
		} else if i+1-start == verbatimRun {
			return text[start : i+1]
		}
	}
	if len(text)-start > len(best) {
		best = text[start:]
	}
	return best
}

// rarest returns run from the byte of its first half on that texts hold least:
// what is searched for by its first byte is then hardly ever met in vain.
func rarest(run string) string {
	const common = " etaoinsrhldcumfpgwybv,.k" // commonest first
	best, rank := 0, -1
	for i := range (len(run) + 1) / 2 {
		at := strings.IndexByte(common, run[i])
		if at < 0 {
			return run[i:]
		}
		if at > rank {
			best, rank = i, at
		}
	}
	return run[best:]
}

// escapable tells the bytes that some JSON encoder writes as an escape.
func escapable(c byte) bool {
	switch c {
	case '"', '\\', '/', '<', '>', '&', '\'', '+':
		return true
	}
	return c < ' ' || c >= 0x7f
}

// appTags counts tags of our vocabulary in the app's own messages: somebody may
// be trying to pass for a source. Most requests hold no byte that could begin
// one.
func (r *Request) appTags() int {
	raw := r.list.of(r.Body)
	if bytes.IndexByte(raw, '<') < 0 && bytes.IndexByte(raw, '&') < 0 && !r.unicode && r.ascii {
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
