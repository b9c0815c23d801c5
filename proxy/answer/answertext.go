package answer

import (
	"encoding/json"
	"io"
	"strings"
)

const (
	// MaxText is the number of bytes of a text that are kept.
	MaxText = 64 << 10
	// MaxWholeText is the size in bytes of the largest non-streamed answer that is read. A stream
	// may have any length, but its events larger than MaxEvent are skipped.
	MaxWholeText = MaxEvent
)

// A TextUnread is the reason why a text could not be read. The set of values is closed.
type TextUnread string

// The reasons.
const (
	TextCompressed TextUnread = "compressed"
	TextTooLarge   TextUnread = "too-large" // larger than MaxWholeText
	TextMalformed  TextUnread = "malformed" // an answer of none of the APIs
	TextNoMemory   TextUnread = "memory"    // TextMemory.Take returned false
)

// A Text is the text of an answer's first choice.
type Text struct {
	Bytes  int        // length of the whole text
	Text   string     // the first MaxText bytes of the text
	Finish string     // the finish reason; "" if there was none
	Unread TextUnread // why the other fields are empty; "" if the text was read
}

// An AnswerText collects the text of one answer. It is not safe for concurrent use.
type AnswerText struct {
	room     TextMemory
	splitter Splitter // used if stream is true
	whole    []byte   // the body, used otherwise
	stream   bool
	ended    bool
	text     []byte
	answer   Text
}

// A TextMemory grants memory for the text that is kept.
type TextMemory interface {
	// Take reserves n more bytes and reports whether they were available.
	Take(n int) bool
}

// NewTextReader returns an AnswerText for an event stream, or for a JSON answer if stream is false.
// An answer with a content coding other than identity is not read.
func NewTextReader(stream bool, contentEncoding string, room TextMemory) *AnswerText {
	r := &AnswerText{stream: stream, room: room}
	if !PlainCoding(contentEncoding) {
		r.answer.Unread = TextCompressed
	}
	r.splitter.Reset(stream, io.Discard, func(io.Writer) io.Writer { return event{r} })
	return r
}

// Write reads the next piece of the answer. It neither keeps nor changes piece.
func (r *AnswerText) Write(piece []byte) (int, error) {
	switch {
	case r.answer.Unread != "":
	case r.stream:
		_, _ = r.splitter.Write(piece) // io.Discard and event never fail
	case len(r.whole)+len(piece) > MaxWholeText:
		r.fail(TextTooLarge)
	case !r.room.Take(len(piece)):
		r.fail(TextNoMemory)
	default:
		r.whole = append(r.whole, piece...)
	}
	return len(piece), nil
}

func (r *AnswerText) fail(why TextUnread) { r.answer, r.whole, r.text = Text{Unread: why}, nil, nil }

// Answer returns the text after the answer ended, complete or not.
func (r *AnswerText) Answer() Text {
	if r.ended || r.answer.Unread != "" {
		return r.answer
	}
	r.ended = true
	if r.stream {
		_ = r.splitter.Close()
	} else if !r.read(r.whole) {
		r.fail(TextMalformed)
	}
	r.answer.Text = strings.ToValidUTF8(string(r.text), "") // the last character may be cut
	return r.answer
}

// An event receives the events of a stream.
type event struct{ *AnswerText }

// Write reads one event.
func (e event) Write(text []byte) (int, error) {
	for data := range All(text) {
		e.read(data)
	}
	return len(text), nil
}

// A body is the part of an answer, or of one of its events, that is read.
type body struct {
	Choices []struct {
		Index   int     `json:"index"`
		Finish  string  `json:"finish_reason"`
		Message message `json:"message"`
		Delta   message `json:"delta"`
	} `json:"choices"`

	// Of the other APIs: members of an event, and of a whole answer.
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"` // a string in the Responses API, an object in the Messages API
	Response *responseBody   `json:"response"`
	responseBody
	Block *textBlock `json:"content_block"`
	messageBody
}

// A messageBody is the part of a message of the Messages API that is read.
type messageBody struct {
	Content    textBlocks `json:"content"`
	StopReason string     `json:"stop_reason"`
}

// textBlocks is the content of a message; nil if that is not a list of blocks.
type textBlocks []textBlock

// UnmarshalJSON implements json.Unmarshaler.
func (b *textBlocks) UnmarshalJSON(raw []byte) error {
	var list []textBlock
	if json.Unmarshal(raw, &list) == nil {
		*b = list
	}
	return nil
}

// A textBlock is a content block of such a message, or the delta of one, with the members of a
// message that are in the event at its end.
type textBlock struct {
	Type       string `json:"type"`
	Text       string `json:"text"`
	StopReason string `json:"stop_reason"`
}

// A responseBody is the part of a response that is read.
type responseBody struct {
	Status string `json:"status"`
	Output []struct {
		Type    string  `json:"type"`
		Content content `json:"content"`
	} `json:"output"`
}

type message struct {
	Content content `json:"content"`
	Refusal content `json:"refusal"`
}

// A content is a text: a string, or the joined texts of a list of parts.
type content string

// UnmarshalJSON implements json.Unmarshaler. Any other value counts as "".
func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content(text)
		return nil
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		for i := range parts {
			*c += content(parts[i].Text + parts[i].Refusal)
		}
	}
	return nil
}

// read reads an answer or event and reports whether it is one of a known API.
func (r *AnswerText) read(data []byte) bool {
	var b body
	if json.Unmarshal(data, &b) != nil {
		return false
	}
	if b.Choices == nil {
		return r.readMessage(&b) || r.readResponse(&b)
	}
	for i := range b.Choices {
		c := &b.Choices[i]
		if c.Index != 0 {
			continue
		}
		for _, text := range [...]content{c.Message.Content, c.Message.Refusal, c.Delta.Content, c.Delta.Refusal} {
			r.say(string(text))
		}
		r.finish(c.Finish)
	}
	return true
}

// finish records the finish reason, if there is one.
func (r *AnswerText) finish(reason string) {
	if reason != "" && r.answer.Unread == "" {
		r.answer.Finish = reason[:min(len(reason), 64)]
	}
}

// readMessage reads a message of the Messages API or one of its events.
func (r *AnswerText) readMessage(b *body) bool {
	blocks := []textBlock(b.Content)
	switch b.Type {
	case "message":
	case "content_block_start":
		if b.Block != nil {
			blocks = []textBlock{*b.Block}
		}
	case "content_block_delta", "message_delta":
		var delta textBlock
		if json.Unmarshal(b.Delta, &delta) != nil {
			return false
		}
		b.StopReason, blocks = delta.StopReason, []textBlock{delta}
	default:
		if b.Content == nil {
			return false
		}
	}
	for _, block := range blocks {
		if block.Type == "text" || block.Type == "text_delta" {
			r.say(block.Text)
		}
	}
	r.finish(b.StopReason)
	return true
}

// readResponse reads a response or one of its events.
func (r *AnswerText) readResponse(b *body) bool {
	switch b.Type {
	case "response.output_text.delta", "response.refusal.delta":
		var text string
		if json.Unmarshal(b.Delta, &text) == nil {
			r.say(text)
		}
		return true
	case "response.completed", "response.incomplete", "response.failed":
		if b.Response != nil {
			r.finish(b.Response.Status)
		}
		return true
	}
	if b.Output == nil {
		return false
	}
	for i := range b.Output {
		if b.Output[i].Type == "message" {
			r.say(string(b.Output[i].Content))
		}
	}
	r.finish(b.Status)
	return true
}

// say appends to the text.
func (r *AnswerText) say(text string) {
	if r.answer.Unread != "" {
		return
	}
	r.answer.Bytes += len(text)
	text = text[:min(len(text), MaxText-len(r.text))]
	if text != "" && !r.room.Take(len(text)) {
		r.fail(TextNoMemory)
		return
	}
	r.text = append(r.text, text...)
}
