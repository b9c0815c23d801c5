package inspector

import (
	"encoding/json"
	"fmt"
	"strings"

	"sidenote/proxy/explain"
)

// An AskedBody is a request body that can be sent again.
type AskedBody struct {
	JSON     []byte // nil if there is none
	LastOnly bool   // only the last user message of the request is available
	Bytes    int    // size of the original body; 0 if nothing of it is kept
}

// AskAgain returns the body of a request, or a body with only its last user message if the middle
// of the original is not kept. whole reports whether texts are kept.
func AskAgain(e *explain.Explanation, whole bool) AskedBody {
	if !whole || e.Received == nil {
		return AskedBody{}
	}
	head, tail, lost := e.Received.Ends()
	if lost == 0 {
		return AskedBody{JSON: []byte(head), Bytes: e.Received.Bytes}
	}
	b := AskedBody{LastOnly: true, Bytes: e.Received.Bytes}
	if content := lastQuestion(tail); content != "" {
		b.JSON = message(e, content)
	}
	return b
}

// AskedQuestion returns a request body with a question, for the model that e's request named.
func AskedQuestion(e *explain.Explanation, text string) []byte { return message(e, quoted(text)) }

// message returns a request body with one message; content is JSON.
func message(e *explain.Explanation, content string) []byte {
	model := ""
	if e.Ledger != nil && e.Ledger.Model != "" {
		model = `"model":` + quoted(e.Ledger.Model) + `,`
	}
	return fmt.Appendf(nil, `{%s"messages":[{"role":"user","content":%s}]}`, model, content)
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text cannot be encoded: " + err.Error())
	}
	return string(b)
}

// maxTries limits the number of objects tried as messages.
const maxTries = 200

// lastQuestion returns the content, as JSON, of the last complete user message at the end of a
// body; "" if there is none. Objects inside a JSON string do not parse, as their quotes are
// escaped.
func lastQuestion(tail string) string {
	at := len(tail)
	for range maxTries {
		if at = strings.LastIndexByte(tail[:at], '{'); at < 0 {
			return ""
		}
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.NewDecoder(strings.NewReader(tail[at:])).Decode(&m); err == nil && m.Role == "user" && len(m.Content) > 0 {
			return string(m.Content)
		}
	}
	return ""
}
