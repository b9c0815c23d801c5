package inspector

import (
	"encoding/json"
	"fmt"
	"strings"

	"sidenote/proxy/explain"
)

// An AskedBody is a request that can be sent again.
type AskedBody struct {
	JSON     []byte // nil: there is none
	LastOnly bool   // of the request only the last message of its user can be asked
	Bytes    int    // of the request, as it came; 0 if nothing of it is kept
}

// AskAgain returns a request as it came, or the last message of its user by itself where its middle is not
// kept. whole tells whether texts are kept.
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

// AskedQuestion returns a request with a question, for the model that another one named.
func AskedQuestion(e *explain.Explanation, text string) []byte { return message(e, quoted(text)) }

// message is a request with one message; content is in JSON.
func message(e *explain.Explanation, content string) []byte {
	model := ""
	if e.Ledger != nil && e.Ledger.Model != "" {
		model = `"model":` + quoted(e.Ledger.Model) + `,`
	}
	return fmt.Appendf(nil, `{%s"messages":[{"role":"user","content":%s}]}`, model, content)
}

// quoted is a text in JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text cannot be encoded: " + err.Error())
	}
	return string(b)
}

// maxTries is how many objects are looked at for a message.
const maxTries = 200

// lastQuestion returns the content, in JSON, of the last message of a user in the end of a body; "" if
// none is whole. Within a string of JSON no object can be read, as its quotes are escaped there.
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
