package model

import (
	"encoding/base64"
	"strings"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// turn counts a message of a Messages request, or its member system. Tools' calls and results,
// thinking and search results are counted as text, images by the model's rule, and documents as
// files.
func (m *messageWeight) turn() {
	m.text = tokens.MessageOverhead
	if m.Kind() != chat.KindObject {
		m.blocks()
		return
	}
	m.Object(func(name string) {
		if m.known(name, memberNames[:1]) == "content" {
			m.blocks()
			return
		}
		m.Value()
	})
}

// blocks counts a string or a list of blocks. The text blocks are counted as one text.
func (m *messageWeight) blocks() {
	if m.Kind() == chat.KindString {
		m.count(m.Text())
		return
	}
	var texts strings.Builder
	m.Array(func(int) { texts.WriteString(m.block()) })
	m.count(texts.String())
}

// block returns the text of a text block and counts any other block.
func (m *messageWeight) block() (text string) {
	start, kind, mark := m.Reader, "", 0
	m.Object(func(name string) {
		switch m.known(name, partNames) {
		case "type":
			kind = m.Text()
		case "text":
			text += m.Text()
		default:
			if v := m.Value(); chat.IsCacheMark(name) {
				mark += len(name) + len(v) + len(`,"":`)
			}
		}
	})
	if kind == "text" {
		return text
	}
	end := m.Reader
	m.Reader, m.exact = start, false
	switch {
	case kind == "thinking":
		m.members("thinking")
	case kind == "redacted_thinking":
		m.text += len(m.Value()) / encryptedBytes
	case kind == "tool_use" || kind == "server_tool_use" || kind == "mcp_tool_use":
		m.text += callOverhead
		m.members("name", "input")
	case kind == "search_result":
		m.searchResult()
	case strings.HasSuffix(kind, "tool_result"):
		m.text += callOverhead
		m.members("content")
	case kind == "image":
		m.Object(m.picture)
	case kind == "document":
		m.members("title", "context")
		m.images += FileTokens + (end.Offset()-start.Offset()-mark)/fileBytes
	default:
		m.count(string(m.Value()))
	}
	m.Reader = end
	return ""
}

// searchResult counts a search result as one text, in the order in which Sidenote counts its own.
func (m *messageWeight) searchResult() {
	var source, title string
	var content strings.Builder
	m.Object(func(name string) {
		switch {
		case name == "source" && m.Kind() == chat.KindString:
			source = m.Text()
		case name == "title" && m.Kind() == chat.KindString:
			title = m.Text()
		case name == "content":
			m.Array(func(int) { content.WriteString(m.block()) })
		default:
			m.Value()
		}
	})
	m.count(title + "\n" + source + "\n" + content.String() + "\n\n")
}

// members counts some members of an object: strings and lists of blocks as text, everything else as
// its JSON.
func (m *messageWeight) members(names ...string) {
	m.Object(func(name string) {
		switch k := m.Kind(); {
		case m.known(name, names) == "":
			m.Value()
		case k == chat.KindString || k == chat.KindArray && name == "content":
			m.blocks()
		default:
			m.count(string(m.Value()))
		}
	})
}

// picture counts an image by its source, which may be its data.
func (m *messageWeight) picture(name string) {
	if name != "source" || m.Kind() != chat.KindObject {
		m.Value()
		return
	}
	url := []byte("data:image/any;base64,")
	m.Object(func(name string) {
		v := m.Value()
		if name == "data" && len(v) > 2 {
			url = append(url, v[1:min(len(v)-1, base64.StdEncoding.EncodedLen(imageHeader))]...)
		}
	})
	width, height := imageSize(url)
	m.images += m.Images.Tokens(width, height, "")
}
