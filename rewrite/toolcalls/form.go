package toolcalls

import (
	"encoding/json"

	"sidenote/rewrite/chat"
)

// A form is how an API writes tools, calls and results.
type form interface {
	// history implements ReadHistory.
	history(r *chat.Request) *History
	// answered returns the key after an answer that the client gets.
	answered(end TurnKey, text string, calls []AppCall) TurnKey

	// check returns an error if a turn cannot be restored.
	check(t *Turn) error
	// fits reports whether a valid turn can be restored in the client's.
	fits(t *Turn, at *toolCallMessage) bool
	// insertions restores a turn that fits.
	insertions(t *Turn, at *toolCallMessage) []Insertion

	// offer reads a member of the request that only this API has, and reports whether it did.
	offer(r *OfferRequest, c *chat.Reader, name string, kind chat.Kind) bool
	// nameOf returns the name of a tool of any type.
	nameOf(tool []byte) string
	// tool writes a tool.
	tool(t Tool) json.RawMessage
	// results implements OfferRequest.Results.
	results(list []Result) []json.RawMessage
	// turn implements OfferRequest.Turn.
	turn(rounds, last []HistoryCall, results []Result) Turn
}

func formOf(api chat.API) form {
	switch api {
	case chat.Responses:
		return itemForm{}
	case chat.Messages:
		return blockForm{}
	}
	return completionForm{}
}

// insertions are sorted by offset.
type insertions []Insertion

// add appends a text, whose offset must not be before that of the last one.
func (list *insertions) add(offset int, text []byte) {
	if n := len(*list); n > 0 && (*list)[n-1].Offset == offset {
		(*list)[n-1].Text = append((*list)[n-1].Text, text...)
		return
	}
	*list = append(*list, Insertion{offset, text})
}

// jsonOf returns the JSON of each element.
func jsonOf(list []HistoryCall) (all []json.RawMessage) {
	for _, c := range list {
		all = append(all, c.JSON)
	}
	return all
}
