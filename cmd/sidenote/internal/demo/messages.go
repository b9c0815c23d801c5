package demo

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sidenote/cmd/sidenote/internal/billing"
)

// A messagesRequest is a request of the Messages API.
type messagesRequest struct {
	Model     string        `json:"model"`
	System    content       `json:"system"`
	Messages  []chatMessage `json:"messages"`
	MaxTokens *int          `json:"max_tokens"`
	Stream    bool          `json:"stream"`
}

// messages answers POST /v1/messages and, with count, /v1/messages/count_tokens.
func (s *Stub) messages(w http.ResponseWriter, body []byte, count bool) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeMessagesError(w, http.StatusBadRequest, "We could not parse the JSON body of your request.")
		return
	}
	if req.Model == "" || len(req.Messages) == 0 || req.MaxTokens == nil && !count {
		writeMessagesError(w, http.StatusBadRequest, "The request needs model, messages and max_tokens.")
		return
	}
	all := chatRequest{N: 1, Messages: append([]chatMessage{{Role: "system", Content: req.System}}, req.Messages...)}
	if count {
		writeJSON(w, http.StatusOK, map[string]int{"input_tokens": all.estimated("").input.Input})
		return
	}
	part, answer := play(all.texts())
	used, err := s.bill(billing.Messages, body, all, answer)
	if err != nil {
		writeMessagesError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.keep(Exchange{part, body, answer})
	message := map[string]any{"id": "msg_demo", "type": "message", "role": "assistant", "model": req.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": used.messages(1)}
	blocks := []textBlock{{text: answer}}
	if results := searchResults(body); len(results) > 0 {
		blocks = citing(answer, results)
	}
	if !req.Stream {
		list := make([]any, len(blocks))
		for i, b := range blocks {
			list[i] = b.json(b.text, b.citations)
		}
		message["content"] = list
		message["stop_reason"], message["usage"] = "end_turn", used.messages(used.output)
		writeJSON(w, http.StatusOK, message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	send := func(name string, event map[string]any) {
		event["type"] = name
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encode(event))
		_ = flush.Flush()
	}
	send("message_start", map[string]any{"message": message})
	send("ping", map[string]any{})
	for i, b := range blocks {
		delta := func(kind, name string, value any) {
			send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, name: value}})
		}
		send("content_block_start", map[string]any{"index": i, "content_block": b.json("", nil)})
		for _, word := range strings.SplitAfter(b.text, " ") {
			delta("text_delta", "text", word)
		}
		for _, c := range b.citations {
			delta("citations_delta", "citation", c)
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": used.messages(used.output)})
	send("message_stop", map[string]any{})
}

// A searchResult is a content block with a source.
type searchResult struct {
	Type, Source, Title string
	Content             []struct{ Text string }
}

func (r *searchResult) text() string {
	var all strings.Builder
	for _, c := range r.Content {
		all.WriteString(c.Text)
	}
	return all.String()
}

// element returns the result as a <source> element with that id.
func (r *searchResult) element(id int) string {
	return fmt.Sprintf("<source id=\"%d\">\n%s\n</source>", id, html.EscapeString(r.text()))
}

// searchResults returns the search results of the last user message.
func searchResults(body []byte) (found []searchResult) {
	var req struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &req) // was read before
	for _, m := range req.Messages {
		var blocks []searchResult
		if m.Role != "user" || json.Unmarshal(m.Content, &blocks) != nil {
			continue
		}
		found = slices.DeleteFunc(blocks, func(b searchResult) bool { return b.Type != "search_result" })
	}
	return found
}

// A textBlock is a block of an answer.
type textBlock struct {
	text      string
	citations []any
}

func (b *textBlock) json(text string, citations []any) map[string]any {
	block := map[string]any{"type": "text", "text": text}
	if b.citations != nil {
		block["citations"] = append([]any{}, citations...)
	}
	return block
}

// citedSentence matches a sentence of an answer and the id that it cites.
var citedSentence = regexp.MustCompile(`(.*?) \[(\d+)\]\. ?`)

// citing returns an answer as blocks that cite search results in place of ids, as Claude does.
func citing(answer string, results []searchResult) (blocks []textBlock) {
	for _, m := range citedSentence.FindAllStringSubmatch(answer, -1) {
		id, err := strconv.Atoi(m[2])
		if err != nil || id < 1 || id > len(results) {
			continue
		}
		r := results[id-1]
		blocks = append(blocks, textBlock{m[1] + ". ", []any{map[string]any{
			"type": "search_result_location", "cited_text": r.text(), "source": r.Source, "title": r.Title,
			"search_result_index": id - 1, "start_block_index": 0, "end_block_index": 1,
		}}})
	}
	if blocks == nil {
		return []textBlock{{text: answer}}
	}
	return blocks
}

func writeMessagesError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": message}})
}
