package events

import (
	"bytes"
	"io"
)

// A Finding says what an answer's prompt_tokens is. It is from a closed list and so can be
// a metrics label.
type Finding string

// The findings. There is a number with Found only.
const (
	Found       Finding = "found"
	Absent      Finding = "absent"       // no usage, or none with prompt_tokens, or null
	Negative    Finding = "negative"     // below zero
	TooLarge    Finding = "too-large"    // above MaxTokens
	NotNumber   Finding = "not-a-number" // a string, bool, object, list or fraction
	Undecodable Finding = "undecodable"  // the Content-Encoding is unknown, or the body malformed or too long
)

// MaxTokens is the largest count that is taken for a real one: a hundred times the largest
// context window there is.
const MaxTokens = 100_000_000

// maxObject is the size of the largest usage object that is read, in bytes. OpenAI's has
// 350.
const maxObject = 8 << 10

// A Usage finds how many tokens the prompt had, in whatever event that stands. It owns
// nothing. The zero value is for one answer.
type Usage struct {
	next   io.Writer
	object []byte // the last one
}

// Stage puts u before next; the method is a Stage.
func (u *Usage) Stage(next io.Writer) io.Writer {
	u.next = next
	return u
}

// Write takes an event.
func (u *Usage) Write(event []byte) (int, error) {
	u.read(event)
	return u.next.Write(event)
}

// PromptTokens returns the count and what was found. Of several usages the last counts, as
// some servers send one with each event. n is 0 unless f is Found.
func (u *Usage) PromptTokens() (n int, f Finding) { return promptTokens(u.object) }

// read looks for the key "usage" with an object. These bytes are a key wherever they stand,
// as inside a JSON string their quotes would be escaped. It searches for them without the
// first quote: JSON is full of quotes, and stopping at each takes nine times as long.
func (u *Usage) read(event []byte) {
	const key = `usage"`
	for at := 0; ; {
		i := bytes.Index(event[at:], []byte(key))
		if i < 0 {
			return
		}
		i += at
		at = i + len(key) - 1 // its last quote may be the first of the next
		if i == 0 || event[i-1] != '"' || i > 1 && event[i-2] == '\\' {
			continue
		}
		if begin, end := object(event, i+len(key)); end > begin {
			u.object = append(u.object[:0], event[begin:end]...)
			at = end
		}
	}
}

// object returns where the object begins and ends that is the value of a key which ends at
// text[at]. If there is none that is whole and short enough, begin is end.
func object(text []byte, at int) (begin, end int) {
	at = skipSpace(text, at)
	if at == len(text) || text[at] != ':' {
		return 0, 0
	}
	at = skipSpace(text, at+1)
	if at == len(text) || text[at] != '{' {
		return 0, 0
	}
	depth, inString, escaped := 0, false, false
	for i, c := range text[at:min(len(text), at+maxObject)] {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return at, at + i + 1
			}
		}
	}
	return 0, 0
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}
