package answer

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode"

	"sidenote/rewrite/chat"
)

// messages is the citedFormat of the Messages API. Each text block of an answer is a text of its own.
//
// If sources are search results, the model cites them by itself, in citations of its text blocks.
// These are passed on unchanged and only counted.
type messages struct {
	checker *CitationChecker
	last    citedEvent
	first   int   // number of the first search result that is a source
	ids     []int // ids of the sources that are search results
	opened  bool  // first and ids are set

	said    []byte         // end of the text of the current block
	decoder textDecoder    // of said
	cited   []int          // ids that the current block cites
	sources map[int]string // lettersOf of the cited sources, by id
}

// A citedEvent is what is read of an event.
type citedEvent struct {
	kind  string
	index int
	block citedBlock // the block that begins, or the delta of one
}

// A citedBlock is what is read of a content block or of its delta.
type citedBlock struct {
	citationPart
	kind      string
	citations [][]byte // as JSON
}

// begin looks up which search results are sources.
func (f *messages) begin() {
	if !f.opened && f.checker.options.SearchResults != nil {
		f.first, f.ids = f.checker.options.SearchResults()
	}
	f.opened = true
}

// whole implements citedFormat.
func (f *messages) whole(body []byte) (texts []citationPart, ok bool) {
	f.begin()
	r := chat.NewReader(body)
	var blocks []citedBlock
	r.Members(func(name []byte) {
		if string(name) != "content" || r.Kind() != chat.KindArray {
			r.Value()
			return
		}
		ok, blocks = true, nil
		r.Array(func(n int) {
			var b citedBlock
			b.read(&r, 0)
			b.number = n
			blocks = append(blocks, b)
		})
	})
	if r.End() != nil {
		return nil, false
	}
	for _, b := range blocks {
		switch {
		case b.kind != "text":
		case len(f.ids) == 0:
			texts = append(texts, b.citationPart)
		default:
			f.cite(b.citations)
			f.say(b.content, body)
			f.claim()
		}
	}
	return texts, ok
}

// event implements citedFormat. Citations are inserted before the end of their block.
func (f *messages) event(s *stream, event []byte) (inserted [][]byte) {
	f.begin()
	c, e := s.checker, &f.last
	data, from := Data(event)
	if data == nil || c.report.Unread != "" || !e.read(data, from) {
		return nil
	}
	switch e.kind {
	case "content_block_start", "content_block_delta":
		if len(f.ids) > 0 {
			f.cite(e.block.citations)
			f.say(e.block.content, event)
			break
		}
		if len(e.block.content) == 0 {
			break
		}
		if t := c.textOf(e.index); t != nil {
			for _, content := range e.block.content {
				t.feed(content.Of(event), s.number, content.Start)
			}
		}
	case "content_block_stop":
		f.claim()
		for i, t := range c.texts {
			if t.number == e.index {
				inserted = f.end(t, event)
				c.texts = append(c.texts[:i:i], c.texts[i+1:]...) // no event of it follows
				break
			}
		}
	}
	return inserted
}

// end finishes a text and returns the events with its citations, to be inserted before another one.
func (f *messages) end(t *citedText, before []byte) (inserted [][]byte) {
	const name = "content_block_delta"
	t.finish()
	t.finished = true
	f.checker.report.Annotations += len(t.added)
	for _, a := range t.added {
		event := append(eventName(name, before), `data: {"type":"`+name+`","index":`...)
		event = strconv.AppendInt(event, int64(t.number), 10)
		event = append(event, `,"delta":{"type":"citations_delta","citation":`...)
		event = f.appendAnnotation(event, a, f.checker.sources[a.id])
		inserted = append(inserted, append(event, "}}\n\n"...))
	}
	return inserted
}

// list implements citedFormat.
func (*messages) list() string { return "citations" }

// appendAnnotation implements citedFormat. A source counts as one search result with one block of
// text; its number follows those of the application's search results.
func (f *messages) appendAnnotation(dst []byte, a annotation, s CitedSource) []byte {
	dst = appendText(append(dst, `{"type":"search_result_location","cited_text":`...), s.Quote)
	dst = appendText(append(dst, `,"source":`...), s.URL)
	dst = appendText(append(dst, `,"title":`...), s.Title)
	dst = strconv.AppendInt(append(dst, `,"search_result_index":`...), int64(f.first+a.id-1), 10)
	return append(dst, `,"start_block_index":0,"end_block_index":1}`...)
}

// cite checks citations that the model made by itself. Those of other documents than sources are
// skipped.
func (f *messages) cite(citations [][]byte) {
	for _, raw := range citations {
		kind, text, number := "", "", -1
		r := chat.NewReader(raw)
		r.Members(func(name []byte) {
			isText := r.Kind() == chat.KindString
			value := r.Value()
			switch {
			case string(name) == "type" && isText:
				kind = chat.Unquote(value)
			case string(name) == "cited_text" && isText:
				text = chat.Unquote(value)
			case string(name) == "search_result_index":
				number = indexIn(value)
			}
		})
		if r.End() != nil || kind != "search_result_location" || number >= 0 && number < f.first {
			continue
		}
		if n := number - f.first; n >= 0 && n < len(f.ids) && f.contains(f.ids[n], text) {
			f.cited = append(f.cited, f.ids[n])
		} else {
			f.checker.report.Unknown++
		}
	}
}

// contains reports whether the source with an id contains a text. A source whose text is unknown
// contains any.
func (f *messages) contains(id int, text string) bool {
	source, ok := f.sources[id]
	if !ok {
		s, given := f.checker.options.SourceByID(id)
		if !given {
			return false
		}
		if f.sources == nil {
			f.sources = map[int]string{}
		}
		source = lettersOf(s.Text)
		f.sources[id] = source
	}
	return source == "" || strings.Contains(source, lettersOf(text))
}

// lettersOf returns the letters and digits of a text. What the model got of a source may differ in
// the rest, because tags in it were escaped.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, html.UnescapeString(text))
}

// say appends to the text of the current block.
func (f *messages) say(content []chat.Span, of []byte) {
	for _, at := range content {
		f.decoder.read(at.Of(of), at.Start, func(b byte, _, _ int) { f.said = append(f.said, b) })
	}
	if n := len(f.said) - maxStatement; n > maxStatement {
		f.said = append(f.said[:0], f.said[n:]...)
	}
}

// claim ends the current block and counts what it cites.
func (f *messages) claim() {
	said := string(f.said[max(0, len(f.said)-maxStatement):])
	for _, id := range f.cited {
		if _, ok := f.checker.source(id); ok && len(f.checker.claims) < maxClaims {
			f.checker.claims = append(f.checker.claims, claim{id, said, said})
		}
	}
	f.said, f.cited, f.decoder = f.said[:0], f.cited[:0], textDecoder{}
}

// read reads an event. Offsets are offsets in data plus base. It returns false if data is not JSON.
func (e *citedEvent) read(data []byte, base int) bool {
	*e = citedEvent{index: -1}
	r := chat.NewReader(data)
	r.Members(func(name []byte) {
		switch string(name) {
		case "content_block", "delta":
			e.block = citedBlock{}
			e.block.read(&r, base)
			return
		}
		isText := r.Kind() == chat.KindString
		value := r.Value()
		switch {
		case string(name) == "type" && isText:
			e.kind = textOf(value)
		case string(name) == "index":
			e.index = indexIn(value)
		}
	})
	if e.block.kind != "text" && e.block.kind != "text_delta" {
		e.block.content = nil
	}
	return r.End() == nil
}

// read reads a content block or the delta of one. Offsets are offsets in r's text plus base.
func (b *citedBlock) read(r *chat.Reader, base int) {
	start := r.Next()
	if r.Kind() != chat.KindObject {
		r.Value()
		return
	}
	r.Members(func(name []byte) {
		kind, from := r.Kind(), r.Next()
		if string(name) == "citations" && kind == chat.KindArray {
			b.citations = nil
			r.Array(func(int) { b.citations = append(b.citations, r.Value()) })
			b.annotations = chat.Span{Start: base + from, End: base + r.Pos()}
			return
		}
		value := r.Value()
		at := chat.Span{Start: base + from, End: base + r.Pos()}
		switch string(name) {
		case "type":
			if kind == chat.KindString {
				b.kind = textOf(value)
			}
		case "text":
			if b.content = nil; kind == chat.KindString {
				b.content = []chat.Span{{Start: at.Start + 1, End: at.End - 1}}
			}
		case "citations":
			b.annotations = at
		case "citation":
			b.citations = [][]byte{value}
		}
	})
	b.message = chat.Span{Start: base + start, End: base + r.Pos()}
}

// eventName returns the first line of an event to be inserted before another one; it is empty if
// that has no name.
func eventName(name string, before []byte) []byte {
	if bytes.HasPrefix(before, []byte("event:")) || bytes.Contains(before, []byte("\nevent:")) {
		return []byte("event: " + name + "\n")
	}
	return nil
}
