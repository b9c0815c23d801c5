package answertest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int      `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index    int       `json:"index"`
	Delta    *message  `json:"delta,omitempty"`
	Message  *message  `json:"message,omitempty"`
	Logprobs *struct{} `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

type message struct {
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Refusal   json.RawMessage `json:"refusal,omitempty"`
	Calls     []call          `json:"tool_calls,omitempty"`
}

type call struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// A sending encodes the nth answer of a dialogue.
type sending struct {
	Answer
	habit Habit
	n     int
	model string
}

func (s *sending) completion(object string, choices ...choice) completion {
	return completion{ID: fmt.Sprintf("chatcmpl-%d", s.n), Object: object, Created: 1700000000 + s.n, Model: s.model, Choices: append([]choice{}, choices...)}
}

func (s *sending) usage() *usage {
	return &usage{s.PromptTokens, s.Tokens, s.PromptTokens + s.Tokens}
}

func (s *sending) finish() *string {
	finish := s.Finish
	if s.habit.Stop && finish == "tool_calls" {
		finish = "stop"
	}
	return &finish
}

// id returns the id of a call, the same each time the dialogue is played.
func (s *sending) id(i int) string {
	switch {
	case s.habit.NoIDs:
		return ""
	case s.Calls[i].ID != "":
		return s.Calls[i].ID
	}
	return s.habit.IDPrefix + fmt.Sprintf("%0*d", s.habit.IDLength, 100*s.n+i)
}

func (s *sending) index(i int) *int {
	switch {
	case s.habit.NoIndex:
		return nil
	case s.habit.SameIndex:
		i = 0
	}
	return &i
}

// whole returns the answer as one JSON object.
func (s *sending) whole() []byte {
	m := &message{Role: "assistant", Content: json.RawMessage("null"), Reasoning: s.Reasoning, Refusal: json.RawMessage("null")}
	if s.Text != "" {
		m.Content = quote(s.Text)
	}
	if s.Refusal != "" {
		m.Refusal = quote(s.Refusal)
	}
	for i, c := range s.Calls {
		m.Calls = append(m.Calls, call{nil, s.id(i), "function", function{c.Name, &c.Arguments}})
	}
	c := s.completion("chat.completion", choice{Message: m, Finish: s.finish()})
	c.Usage = s.usage()
	return encode(c)
}

// events returns the events of the streamed answer. If it is cut or waits, they end before the
// finish reason.
func (s *sending) events(includeUsage bool) [][]byte {
	deltas := append([]message{{Role: "assistant", Content: quote("")}}, s.texts()...)
	deltas = append(deltas, s.calls()...)
	var list [][]byte
	add := func(c completion) { list = append(list, fmt.Appendf(nil, "data: %s\n\n", encode(c))) }
	last := s.habit.OneDelta && len(s.Calls) > 0
	for i := range deltas {
		d := &deltas[i]
		if s.habit.Repeats {
			d.Role = "assistant"
		}
		c := s.completion("chat.completion.chunk", choice{Delta: d})
		if last && i == len(deltas)-1 {
			if s.Cut || s.Wait {
				return list
			}
			c.Choices[0].Finish, c.Usage = s.finish(), s.usage()
		}
		add(c)
	}
	if s.Cut || s.Wait {
		return list
	}
	if !last {
		add(s.completion("chat.completion.chunk", choice{Delta: &message{}, Finish: s.finish()}))
		if includeUsage {
			c := s.completion("chat.completion.chunk")
			c.Usage = s.usage()
			add(c)
		}
	}
	return append(list, []byte("data: [DONE]\n\n"))
}

// texts returns the deltas with text, reasoning and refusal.
func (s *sending) texts() (deltas []message) {
	for _, piece := range s.habit.Pieces(s.Reasoning) {
		deltas = append(deltas, message{Reasoning: piece})
	}
	for _, piece := range s.habit.Pieces(s.Text) {
		deltas = append(deltas, message{Content: quote(piece)})
	}
	for _, piece := range s.habit.Pieces(s.Refusal) {
		deltas = append(deltas, message{Refusal: quote(piece)})
	}
	return deltas
}

// calls returns the deltas with calls.
func (s *sending) calls() (deltas []message) {
	add := func(c call) { deltas = append(deltas, message{Calls: []call{c}}) }
	for i, c := range s.Calls {
		first := call{s.index(i), s.id(i), "function", function{Name: c.Name}}
		if s.habit.WholeCalls {
			first.Function.Arguments = &c.Arguments
			add(first)
			continue
		}
		if !s.habit.NameApart {
			first.Function.Arguments = new(string)
		}
		add(first)
		for _, piece := range s.habit.Pieces(c.Arguments) {
			next := call{Index: s.index(i), Function: function{Arguments: &piece}}
			if s.habit.Repeats {
				next.ID, next.Type = s.id(i), "function"
			}
			add(next)
		}
	}
	if s.habit.OneDelta && len(deltas) > 0 {
		all := message{Content: quote("")}
		for _, d := range deltas {
			all.Calls = append(all.Calls, d.Calls...)
		}
		deltas = []message{all}
	}
	return deltas
}

func quote(s string) json.RawMessage { return encode(s) }

// encode encodes JSON without escaping < and &, as servers do.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
