package toolcalls

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"sidenote/rewrite/chat"
)

// A Turn is the part that the client did not see of an assistant message with tool calls: the
// calls of Sidenote's tools, and the rounds before it that called nothing else. One of the two
// may be missing.
//
// In the Responses API a message's place is taken by output items: Before are items of earlier
// rounds that the client did not get, Calls is empty, and Results are calls and their results, which
// come after the client's.
//
// In the Messages API the client's message has the content blocks of all rounds: Before is empty,
// and Calls are the blocks that it does not have and, after those of each earlier round, the user
// message with the results of its calls, at which the client's message is divided. Results are
// content blocks, which come first in the message with the client's results.
type Turn struct {
	API chat.API
	// Before are complete messages preceding the message: assistant messages that call Sidenote's
	// tools, each followed by the tool messages or, if it calls in its text, by a user message
	// with the results. They omit text that was shown to the client, since it is in the client's
	// message.
	Before []json.RawMessage
	// Calls are the calls of Sidenote's tools in the message, by position.
	Calls []HistoryCall
	// Results are the tool messages for Calls, in the same order. They come right after the
	// message, before the client's.
	Results []json.RawMessage
	// NextID is the id for the next source shown in the conversation.
	NextID int
	// Sources are the sources in the results, encoded by the caller; nil if none.
	Sources json.RawMessage
}

// A HistoryCall is an element of tool_calls. In the Messages API it is a content block or, between
// the blocks of two rounds, a message.
type HistoryCall struct {
	// At is its index among all calls of the message, including the client's. In the Messages API it
	// is the number of blocks before it that the client has, without thinking and empty texts, which
	// clients may leave out.
	At int
	// AfterThinking puts it after thinking at this place rather than before. It is used in the
	// Messages API only.
	AfterThinking bool
	JSON          json.RawMessage
}

// MaxTurnSize is the maximum size of an encoded turn in bytes.
const MaxTurnSize = 256 << 10

// encoding is the version of the encoding. Increment it when the format of Encode changes.
const encoding = 4

// Encode returns the turn encoded for a store. The error is ErrTooLarge, or says why the turn
// could never be restored.
//
//	version and API (1 byte each), NextID, the lists Before, Calls, Results, and Sources
//
// Numbers are uvarints. Lists and JSON texts are preceded by their lengths, and the text of a
// call by twice At, plus one if AfterThinking is set.
func (t *Turn) Encode() ([]byte, error) {
	if err := formOf(t.API).check(t); err != nil {
		return nil, err
	}
	b := binary.AppendUvarint([]byte{encoding, byte(t.API)}, uint64(max(t.NextID, 0)))
	b = appendList(b, t.Before)
	b = binary.AppendUvarint(b, uint64(len(t.Calls)))
	for _, c := range t.Calls {
		at := 2 * uint64(c.At)
		if c.AfterThinking {
			at++
		}
		b = binary.AppendUvarint(b, at)
		b = appendSizedTurn(b, []byte(c.JSON))
	}
	b = appendSizedTurn(appendList(b, t.Results), []byte(t.Sources))
	if len(b) > MaxTurnSize {
		return nil, fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, len(b), MaxTurnSize)
	}
	return b, nil
}

// Size returns the bytes of JSON in the turn, which is about what a request grows by.
func (t *Turn) Size() (n int) {
	for _, raw := range t.Before {
		n += len(raw)
	}
	for _, c := range t.Calls {
		n += len(c.JSON)
	}
	for _, raw := range t.Results {
		n += len(raw)
	}
	return n
}

func appendList(b []byte, list []json.RawMessage) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, raw := range list {
		b = appendSizedTurn(b, []byte(raw))
	}
	return b
}

var errEncoding = errors.New("not an encoded turn of this version")

// DecodeTurn decodes the result of Encode. The turn points into b. It returns an error if b is
// anything else.
func DecodeTurn(b []byte) (*Turn, error) {
	if len(b) < 2 || len(b) > MaxTurnSize || b[0] != encoding || b[1] > byte(chat.Messages) {
		return nil, errEncoding
	}
	d := decoder{b: b[2:]}
	t := &Turn{API: chat.API(b[1]), NextID: d.number()}
	t.Before = d.list()
	for n := d.count(); n > 0 && !d.failed; n-- {
		at := d.number()
		t.Calls = append(t.Calls, HistoryCall{At: at / 2, AfterThinking: at%2 == 1, JSON: d.text()})
	}
	t.Results = d.list()
	if sources := d.text(); len(sources) > 0 {
		t.Sources = sources
	}
	if d.failed || len(d.b) > 0 {
		return nil, errEncoding
	}
	return t, nil
}

// A decoder reads the output of Encode. After the first failure it returns zero values.
type decoder struct {
	b      []byte
	failed bool
}

// number reads a number no larger than an index or id can be.
func (d *decoder) number() int {
	n, width := binary.Uvarint(d.b)
	if d.failed || width <= 0 || n > 1<<31-1 {
		d.failed = true
		return 0
	}
	d.b = d.b[width:]
	return int(n)
}

// count reads a length, in bytes or in elements of at least one byte.
func (d *decoder) count() int {
	n := d.number()
	if n > len(d.b) {
		d.failed = true
		return 0
	}
	return n
}

func (d *decoder) text() json.RawMessage {
	n := d.count()
	raw := d.b[:n:n]
	d.b = d.b[n:]
	return raw
}

func (d *decoder) list() (list []json.RawMessage) {
	for n := d.count(); n > 0 && !d.failed; n-- {
		list = append(list, d.text())
	}
	return list
}

// ErrTooLarge means that a turn is larger than MaxTurnSize.
var ErrTooLarge = errors.New("turn: too large")

// The reasons why a turn cannot be restored.
var (
	errJSON  = errors.New("turn: not a JSON object")
	errRules = errors.New("turn: a call without id, name or answer, or an answer without its call")
	errOrder = errors.New("turn: calls are not in order")
	errEmpty = errors.New("turn: nothing was left out")
)

func (completionForm) check(t *Turn) error {
	if len(t.Before)+len(t.Calls) == 0 {
		return errEmpty
	}
	if err := t.checkBefore(); err != nil {
		return err
	}
	calls := make([]call, len(t.Calls))
	for i, c := range t.Calls {
		if !object(c.JSON) {
			return errJSON
		}
		if calls[i], _ = readCall(c.JSON); calls[i].name == "" {
			return errRules
		}
		if c.At < 0 || i > 0 && c.At <= t.Calls[i-1].At {
			return errOrder
		}
	}
	answers := pair(calls)
	for _, raw := range t.Results {
		m, err := readOwn(raw)
		if err != nil {
			return err
		}
		if m.role != roleTool {
			return errRules
		}
		answers.answer(m.answers)
	}
	if !answers.whole() {
		return errRules
	}
	return nil
}

// checkBefore checks that Before consists of calls and all of their results, and nothing else.
func (t *Turn) checkBefore() error {
	var answers pairing
	inText := false // the previous message calls in its text
	for _, raw := range t.Before {
		m, err := readOwn(raw)
		switch {
		case err != nil:
			return err
		case inText != (m.role == roleUser):
			return errRules
		case m.role == roleUser:
			inText = false
		case m.role == roleTool:
			answers.answer(m.answers)
		case m.role != roleAssistant || !answers.whole() || len(m.calls) == 0 && len(m.content) == 0:
			return errRules
		default:
			answers, inText = pair(m.calls), len(m.calls) == 0
		}
	}
	if inText || !answers.whole() {
		return errRules
	}
	return nil
}

// readOwn reads a message written by Sidenote.
func readOwn(raw []byte) (message, error) {
	if !object(raw) {
		return message{}, errJSON
	}
	m := readMessage(raw)
	if m.unclear {
		return m, errJSON
	}
	return m, nil
}

// object reports whether raw is a JSON object and nothing else.
func object(raw []byte) bool {
	r := chat.NewReader(raw)
	if r.Kind() != chat.KindObject {
		return false
	}
	r.Value()
	return r.End() == nil && !r.TooDeep()
}
