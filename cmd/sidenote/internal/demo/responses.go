package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"sidenote/cmd/sidenote/internal/billing"
)

// A responsesRequest is a request of the Responses API.
type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Stream       bool            `json:"stream"`
}

// responses answers POST /v1/responses.
func (s *Stub) responses(w http.ResponseWriter, body []byte) {
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_json", "We could not parse the JSON body of your request.")
		return
	}
	all := chatRequest{N: 1, Messages: []chatMessage{{Role: "system", Content: content(req.Instructions)}}}
	var items []chatMessage
	var text string
	switch {
	case json.Unmarshal(req.Input, &text) == nil:
		items = []chatMessage{{Role: "user", Content: content(text)}}
	case json.Unmarshal(req.Input, &items) != nil:
		items = nil
	}
	if all.Messages = append(all.Messages, items...); req.Model == "" || len(items) == 0 {
		writeError(w, http.StatusBadRequest, "missing_required_parameter", "The request needs model and input.")
		return
	}
	part, answer := play(all.texts())
	used, err := s.bill(billing.Responses, body, all, answer)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.keep(Exchange{part, body, answer})
	message := func(status string, parts ...any) map[string]any {
		if parts == nil {
			parts = []any{}
		}
		return map[string]any{"id": "msg_demo", "type": "message", "status": status, "role": "assistant", "content": parts}
	}
	whole := map[string]any{"type": "output_text", "text": answer, "annotations": []any{}}
	response := func(status string, output ...any) map[string]any {
		r := map[string]any{
			"id": "resp_demo", "object": "response", "created_at": created, "status": status, "model": req.Model, "error": nil, "incomplete_details": nil,
			"instructions": nil, "metadata": map[string]any{}, "output": []any{}, "parallel_tool_calls": true, "temperature": nil, "tool_choice": "auto",
			"tools": []any{}, "top_p": nil, "usage": nil,
		}
		if output != nil {
			r["output"], r["usage"] = output, used.responses()
		}
		return r
	}
	if !req.Stream {
		writeJSON(w, http.StatusOK, response("completed", message("completed", whole)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush, number := http.NewResponseController(w), 0
	send := func(name string, event map[string]any) {
		event["type"], event["sequence_number"] = name, number
		number++
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encode(event))
		_ = flush.Flush()
	}
	inPart := func(event map[string]any) map[string]any {
		event["item_id"], event["output_index"], event["content_index"] = "msg_demo", 0, 0
		return event
	}
	send("response.created", map[string]any{"response": response("in_progress")})
	send("response.output_item.added", map[string]any{"output_index": 0, "item": message("in_progress")})
	send("response.content_part.added", inPart(map[string]any{"part": map[string]any{"type": "output_text", "text": "", "annotations": []any{}}}))
	for _, word := range strings.SplitAfter(answer, " ") {
		send("response.output_text.delta", inPart(map[string]any{"delta": word, "logprobs": []any{}}))
	}
	send("response.output_text.done", inPart(map[string]any{"text": answer, "logprobs": []any{}}))
	send("response.content_part.done", inPart(map[string]any{"part": whole}))
	send("response.output_item.done", map[string]any{"output_index": 0, "item": message("completed", whole)})
	send("response.completed", map[string]any{"response": response("completed", message("completed", whole))})
}
