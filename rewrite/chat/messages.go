package chat

import "strings"

// blockKeys are the members of content blocks of a Messages request that are read.
var blockKeys = append([]string{"content"}, partKeys...)

// ofMessages reads a member of a Messages request, and returns false if it has no value to read.
func (p *Parser) ofMessages(name string, k Kind) bool {
	switch {
	case name == "system" && k == KindArray:
		p.blocks()
	case name == "system" && (k == KindString || k == KindNull):
		p.r.operator = Member{Span: p.value(), Kind: k}
		p.operator = message{role: roleSystem, kind: KindString, ambiguous: p.garbledText(p.r.operator.Span), content: p.r.operator.Span}
	case name == "system":
		p.notChat(path{-1, -1, name}, "%s, not a string or an array", k)
		p.value()
	case name == "output_config" && k == KindObject:
		p.formatIn("output_config.")
	case name == "output_format" && k == KindObject:
		p.format("output_format.")
	case name == "thread" && k == KindObject:
		p.thread()
	default:
		return false
	}
	return true
}

// threadKeys are the members of a thread that are read.
var threadKeys = []string{"type", "previous_message_id"}

// thread reads the member thread. One that is continued holds the earlier turns and system.
func (p *Parser) thread() {
	level := p.keys.level()
	kind, previous := "", ""
	p.object(func(key Span, escaped bool) {
		name, _ := p.key(level, "thread.", key, escaped, threadKeys)
		switch {
		case name == "type" && p.kind() == KindString:
			kind = p.id()
		case name != "" && p.kind() == KindString:
			previous = p.id()
		default:
			p.value()
		}
	})
	p.keys.leave(level)
	if kind == "continue" {
		p.r.History.Previous = previous
	}
}

// blocks reads the text blocks of the member system.
func (p *Parser) blocks() {
	m := message{role: roleSystem, kind: KindArray}
	p.keys.quiet, p.keys.ambiguous = !p.describe, false
	m.parts.Start = len(p.r.parts)
	m.content = p.array(func(i int) {
		p.part(-1, i)
		m.last = p.i
	})
	m.parts.End = len(p.r.parts)
	m.ambiguous, p.keys.quiet = p.keys.ambiguous, false
	p.r.ambiguous = p.r.ambiguous || m.ambiguous
	p.r.operator, p.operator = Member{Span: m.content, Kind: KindArray}, m
}

// nestedAttachments reads the content of a block, such as that of a tool's result, and returns the
// number of its images and documents.
func (p *Parser) nestedAttachments() (n int) {
	p.array(func(int) {
		at := p.i
		if k, v := p.kind(), p.value(); k == KindObject && p.err == nil && p.r.API.attached(typeOf(p.b[at:v.End])) {
			n++
		}
	})
	return n
}

// typeOf returns the member type of a JSON object.
func typeOf(object []byte) (kind string) {
	r := NewReader(object)
	r.Object(func(name string) {
		if name == "type" && r.Kind() == KindString {
			kind = r.Text()
			return
		}
		r.Value()
	})
	return kind
}

// attached reports whether a content part of the given type, which is not text, is an image, a file
// or another attachment.
func (a API) attached(part string) bool {
	if a != Messages {
		return true
	}
	switch part {
	case "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "search_result", "tool_reference", "compaction":
		return false
	}
	return !strings.HasSuffix(part, "tool_result")
}

// HasBlock reports whether the content of the n-th of Messages is a list with a block of that type.
func (r *Request) HasBlock(n int, kind string) bool {
	return hasBlock(r.Messages[n].Of(r.Body), kind)
}

// KeepsSystem reports whether the request continues a thread, whose system cannot change.
func (r *Request) KeepsSystem() bool { return r.API == Messages && r.History.Continued() }

// hasBlock reports whether the content of a message in JSON is a list with a block of that type.
func hasBlock(message []byte, kind string) (found bool) {
	r := NewReader(message)
	r.Object(func(name string) {
		if name != "content" || r.Kind() != KindArray {
			r.Value()
			return
		}
		r.Array(func(int) { found = typeOf(r.Value()) == kind || found })
	})
	return found
}

// OnlyWarms reports whether no answer is expected, as the request only fills the upstream's prompt
// cache.
func (r *Request) OnlyWarms() bool { return r.API == Messages && r.MaxTokens == 0 }

// TakesBlocks reports whether the content of the i-th message is a text or a list, neither empty.
func (r *Request) TakesBlocks(i int) bool {
	m := &r.kept[i]
	return m.kind == KindArray && m.last > 0 || m.kind == KindString && m.content.End-m.content.Start > 2
}

// BlocksAfter returns the place of content blocks in JSON, each after a comma, at the end of the
// content of the i-th message of a Messages request, which TakesBlocks. A string becomes a list of
// blocks; Wrapping returns what has to be inserted before it.
func (r *Request) BlocksAfter(i int) Place {
	m := &r.kept[i]
	if m.kind == KindString {
		return Place{Offset: m.content.End, Wrap: m.content, wrap: dialects[r.API].openList(), Frame: Frame{open: "}", close: "]"}}
	}
	return Place{Offset: m.last}
}

// Wrapping returns what has to be inserted before the string Wrap; nil if there is none.
func (p *Place) Wrapping() []byte {
	if p.Wrap == (Span{}) {
		return nil
	}
	return []byte(p.wrap)
}

// SearchResults are the blocks of the type search_result in a Messages request.
type SearchResults struct {
	Before  int  // number of them up to the end of a message
	After   bool // there are others after that
	Uncited bool // one of them has citations disabled
}

// SearchResultsAround reads the search results of a Messages request up to the end of its i-th
// message and after that.
func (r *Request) SearchResultsAround(i int) SearchResults {
	return r.searchResultsAround(int(r.kept[i].n) - (len(r.Messages) - len(r.items())))
}

// SearchResults returns the number of search results in a Messages request.
func (r *Request) SearchResults() int { return r.searchResultsAround(len(r.items())).Before }

// searchResultsAround is SearchResultsAround for the last-th element of the list of messages.
func (r *Request) searchResultsAround(last int) (found SearchResults) {
	for n, at := range r.items() {
		m := NewReader(at.Of(r.Body))
		m.Object(func(name string) {
			if name == "content" {
				r.searchResults(&m, n > last, &found)
				return
			}
			m.Value()
		})
	}
	return found
}

// searchResults reads a list of blocks; after reports whether it is after the place of interest.
func (r *Request) searchResults(list *Reader, after bool, found *SearchResults) {
	list.Array(func(int) {
		kind, cited, nested := "", false, []byte(nil)
		list.Object(func(name string) {
			switch {
			case name == "type" && list.Kind() == KindString:
				kind = list.Text()
			case name == "content" && list.Kind() == KindArray:
				nested = list.Value()
			case name == "citations" && list.Kind() == KindObject:
				list.Object(func(name string) { cited = string(list.Value()) == "true" && name == "enabled" || cited })
			default:
				list.Value()
			}
		})
		switch {
		case kind == "search_result" && after:
			found.After = true
		case kind == "search_result":
			found.Before++
			found.Uncited = found.Uncited || !cited
		case kind == "tool_result" && nested != nil:
			inner := NewReader(nested)
			r.searchResults(&inner, after, found)
		}
	})
}

// AppendSearchResult appends a comma and a block of the type search_result to dst.
func AppendSearchResult(dst []byte, source, title, text string) []byte {
	dst = appendQuoted(append(dst, `,{"type":"search_result","source":"`...), source)
	dst = appendQuoted(append(dst, `","title":"`...), title)
	dst = appendQuoted(append(dst, `","content":[{"type":"text","text":"`...), text)
	return append(dst, `"}],"citations":{"enabled":true}}`...)
}
