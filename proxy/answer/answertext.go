package answer

import (
	"encoding/json"
	"io"
	"strings"
)

const (
	// MaxText is how much of a text is kept, in bytes.
	MaxText = 64 << 10
	// MaxWholeText is the largest answer that is read where it is no stream, in bytes. Of a stream any
	// length is read, but for events that are larger.
	MaxWholeText = MaxEvent
)

// A TextUnread says why a text is not known. It is of a closed list.
type TextUnread string

// The reasons.
const (
	TextCompressed TextUnread = "compressed"
	TextTooLarge   TextUnread = "too-large" // beyond MaxWhole
	TextMalformed  TextUnread = "malformed" // no answer to a chat
	TextNoMemory   TextUnread = "memory"    // there was none left
)

// A Text is what the first choice of an answer says.
type Text struct {
	Bytes  int        // of the whole text
	Text   string     // its first MaxText bytes
	Finish string     // the reason to finish; "" if none was told
	Unread TextUnread // why the rest is empty; "" if it was read
}

// An AnswerText reads one answer. It is for one goroutine at a time.
type AnswerText struct {
	room     TextRoom
	splitter Splitter // of a stream
	whole    []byte   // else
	stream   bool
	text     []byte
	answer   Text
}

// A TextRoom gives memory for what is kept.
type TextRoom interface {
	// Take tells whether there are n more bytes.
	Take(n int) bool
}

// NewTextReader returns an AnswerText of an answer with that Content-Encoding, which is a stream of events or JSON.
func NewTextReader(stream bool, contentEncoding string, room TextRoom) *AnswerText {
	r := &AnswerText{stream: stream, room: room}
	if !PlainCoding(contentEncoding) {
		r.answer.Unread = TextCompressed
	}
	r.splitter.Reset(stream, io.Discard, func(io.Writer) io.Writer { return event{r} })
	return r
}

// Write takes the next piece of the answer, which it does not keep or change.
func (r *AnswerText) Write(piece []byte) (int, error) {
	switch {
	case r.answer.Unread != "":
	case r.stream:
		_, _ = r.splitter.Write(piece) // nobody behind it fails
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

// Answer returns what was said, when the answer has ended, whole or cut. Call it once.
func (r *AnswerText) Answer() Text {
	if r.answer.Unread != "" {
		return r.answer
	}
	if r.stream {
		_ = r.splitter.Close()
	} else if !r.read(r.whole) {
		r.fail(TextMalformed)
	}
	r.answer.Text = strings.ToValidUTF8(string(r.text), "") // the last character may be cut
	return r.answer
}

// An event is where the events of a stream go.
type event struct{ *AnswerText }

// Write takes one event.
func (e event) Write(text []byte) (int, error) {
	for data := range All(text) {
		e.read(data)
	}
	return len(text), nil
}

// A body is what is read of an answer, or of an event of one.
type body struct {
	Choices []struct {
		Index   int     `json:"index"`
		Finish  string  `json:"finish_reason"`
		Message message `json:"message"`
		Delta   message `json:"delta"`
	} `json:"choices"`
}

type message struct {
	Content content `json:"content"`
	Refusal content `json:"refusal"`
}

// A content is a text: a string, or the texts of a list of parts.
type content string

// UnmarshalJSON implements json.Unmarshaler. What is no text is none.
func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content(text)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		for i := range parts {
			*c += content(parts[i].Text)
		}
	}
	return nil
}

// read reads an answer, or an event, and tells whether it is one.
func (r *AnswerText) read(data []byte) bool {
	var b body
	if json.Unmarshal(data, &b) != nil || b.Choices == nil {
		return false
	}
	for i := range b.Choices {
		c := &b.Choices[i]
		if c.Index != 0 {
			continue
		}
		for _, text := range [...]content{c.Message.Content, c.Message.Refusal, c.Delta.Content, c.Delta.Refusal} {
			r.say(string(text))
		}
		if c.Finish != "" && r.answer.Unread == "" {
			r.answer.Finish = c.Finish[:min(len(c.Finish), 64)]
		}
	}
	return true
}

// say adds to the text.
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
