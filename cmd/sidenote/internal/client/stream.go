package client

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// maxEvent limits an event, or an answer that is not streamed, in bytes.
const maxEvent = 16 << 20

// A completion holds the fields that are read of an answer, or of a chunk of one.
type completion struct {
	ID      string
	Model   string
	Choices []struct {
		Index          int
		Message, Delta words
		Finish         string `json:"finish_reason"`
	}
	Error failure
}

type words struct {
	Content content
	Refusal string
}

func (w words) text() string { return string(w.Content) + w.Refusal }

// A content is a string, or the joined texts of a list of parts.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(data, &parts) // invalid parts have no text
	for _, part := range parts {
		if part.Type == "text" {
			*c += content(part.Text)
		}
	}
	return nil
}

// A failure is an error in OpenAI's format, or the plain string that some servers send.
type failure json.RawMessage

func (f *failure) UnmarshalJSON(data []byte) error {
	*f = append((*f)[:0], data...)
	return nil
}

// message returns the text of the error, or "" if there is none.
func (f failure) message() string {
	var shaped struct{ Message string }
	var text string
	switch {
	case len(f) == 0 || string(f) == "null":
		return ""
	case json.Unmarshal(f, &shaped) == nil && shaped.Message != "":
		return shaped.Message
	case json.Unmarshal(f, &text) == nil:
		return text
	}
	return string(f)
}

// stageComment matches a stream's comment about a stage before the answer.
var stageComment = regexp.MustCompile(`^: ?sidenote stage (\d+)/(\d+) (\S+)$`)

// readStream reads server-sent events to the end of the answer.
func readStream(r io.Reader, f Follow) (a Answer, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var text strings.Builder
	defer func() { a.Text = text.String() }()
	var data string // of the current event so far
	for first := true; lines.Scan(); first = false {
		line := lines.Text()
		if first {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if m := stageComment.FindStringSubmatch(line); m != nil && f.Stage != nil {
			at, _ := strconv.Atoi(m[1])
			of, _ := strconv.Atoi(m[2])
			f.Stage(at, of, m[3])
			continue
		}
		more, ok := strings.CutPrefix(line, "data:")
		if ok {
			data = strings.TrimSpace(data + "\n" + more)
		}
		if data == "[DONE]" {
			return a, nil
		}
		if data == "" || line != "" && !json.Valid([]byte(data)) {
			continue // the event is empty or incomplete
		}
		var event completion
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return a, errNotJSON()
		}
		data = ""
		if message := event.Error.message(); message != "" {
			return a, &ChatRefusal{Status: http.StatusOK, Message: message}
		}
		if more := a.add(event); more != "" {
			text.WriteString(more)
			if f.Text != nil {
				f.Text(more)
			}
		}
	}
	if data != "" && lines.Err() == nil {
		return a, errNotJSON()
	}
	if lines.Err() == nil && a.Finish != "" { // some servers send no [DONE]
		return a, nil
	}
	return a, ErrIncomplete
}

func errNotJSON() error {
	return &ChatRefusal{Status: http.StatusOK, Message: "an event of the stream is no JSON"}
}

// add takes over an event and returns its text.
func (a *Answer) add(event completion) string {
	if a.ID == "" {
		a.ID, a.Model = event.ID, event.Model
	}
	for _, choice := range event.Choices {
		if choice.Index != 0 {
			continue
		}
		if choice.Finish != "" {
			a.Finish = choice.Finish
		}
		return choice.Delta.text()
	}
	return ""
}
