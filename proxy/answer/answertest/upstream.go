// Package answertest provides a fake upstream that plays dialogues: it returns scripted answers and
// checks the requests.
package answertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"sidenote/rewrite/toolcalls/toolcallstest"
)

// An Upstream plays a dialogue: the nth request gets its nth answer.
type Upstream struct {
	URL     string          // without a path
	Waiting <-chan struct{} // receives a value when an answer begins to wait
	Left    <-chan struct{} // receives a value when the client of such an answer has left

	t        TB
	dialogue Dialogue
	habit    Habit
	items    ItemHabit   // of the Responses API
	blocks   *BlockHabit // of the Messages API; nil for others
	waiting  chan struct{}
	left     chan struct{}

	mu       sync.Mutex
	requests [][]byte
	kept     map[string][]json.RawMessage // the items of conversations and of the turns up to a response, by id
}

// TB is the part of testing.TB that an Upstream needs.
type TB interface {
	Helper()
	Errorf(format string, arguments ...any)
	Cleanup(func())
}

// Start starts an upstream, which ends with the test. A request that breaks the rules on tool
// messages (see package toolcallstest), or for which no answer is left, gets OpenAI's 400 and fails
// the test. An answer that was never requested fails the test too.
func Start(t TB, d Dialogue, h Habit) *Upstream {
	t.Helper()
	return start(t, &Upstream{t: t, dialogue: d, habit: h})
}

// StartResponses is Start for an upstream of the Responses API, which keeps conversations.
func StartResponses(t TB, d Dialogue, h ItemHabit) *Upstream {
	t.Helper()
	return start(t, &Upstream{t: t, dialogue: d, items: h, kept: map[string][]json.RawMessage{}})
}

// StartMessages is Start for an upstream of the Messages API.
func StartMessages(t TB, d Dialogue, h BlockHabit) *Upstream {
	t.Helper()
	return start(t, &Upstream{t: t, dialogue: d, blocks: &h})
}

func start(t TB, u *Upstream) *Upstream {
	t.Helper()
	d, n := u.dialogue, len(u.dialogue.Answers)
	u.waiting, u.left = make(chan struct{}, n), make(chan struct{}, n)
	u.Waiting, u.Left = u.waiting, u.left
	server := httptest.NewServer(u)
	u.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // ends answers that still wait
		server.Close()
		if asked := len(u.Requests()); asked < n {
			t.Errorf("%s: %d answers, asked for %d", d.Name, n, asked)
		}
	})
	return u
}

// Requests returns the bodies of the requests so far.
func (u *Upstream) Requests() [][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// ServeHTTP answers a request.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // a check whether the server is up
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	u.mu.Lock()
	u.requests = append(u.requests, body)
	n := len(u.requests)
	u.mu.Unlock()
	request := struct {
		Model         string
		Stream        bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}{}
	err = json.Unmarshal(body, &request)
	switch {
	case err != nil:
	case u.kept != nil:
		err = u.keep(n, body)
	case u.blocks != nil:
		err = toolcallstest.CheckMessages(body)
	default:
		err = toolcallstest.Check(body)
	}
	if err == nil && n > len(u.dialogue.Answers) {
		err = fmt.Errorf("there are %d answers", len(u.dialogue.Answers))
	}
	if err != nil {
		u.t.Errorf("%s: request %d: %v: %s", u.dialogue.Name, n, err, body)
		refuse(w, err)
		return
	}
	a := u.dialogue.Answers[n-1]
	s := sending{a, u.habit, n, request.Model}
	events, whole := func() [][]byte { return s.events(request.StreamOptions.IncludeUsage) }, s.whole
	switch {
	case u.blocks != nil:
		s := messaging{Answer: a, habit: *u.blocks, n: n, model: request.Model}
		events, whole = s.events, s.whole
	case u.kept != nil:
		s := responding{Answer: a, habit: u.items, n: n, model: request.Model}
		events, whole = s.events, s.whole
	}
	if request.Stream && a.Status == 0 {
		u.stream(w, r, &a, events())
		return
	}
	u.answer(w, r, &a, whole)
}

// keep keeps the items of a Responses request and of its answer, and checks them together with
// those before.
func (u *Upstream) keep(n int, body []byte) error {
	var request struct {
		Input        json.RawMessage
		Previous     string `json:"previous_response_id"`
		Conversation string
		Store        *bool
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	input := []json.RawMessage{fmt.Appendf(nil, `{"role":"user","content":%s}`, request.Input)}
	if request.Input[0] == '[' {
		input = nil
		if err := json.Unmarshal(request.Input, &input); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.kept[request.Previous+request.Conversation]
	if request.Previous != "" && !known {
		return fmt.Errorf("previous response with id %q not found", request.Previous)
	}
	all := slices.Concat(before, input)
	if err := toolcallstest.CheckItems(all); err != nil || n > len(u.dialogue.Answers) {
		return err
	}
	s := responding{Answer: u.dialogue.Answers[n-1], habit: u.items, n: n}
	if s.Status != 0 { // nothing is added to a conversation unless a response is completed
		return nil
	}
	for _, item := range s.items() {
		all = append(all, encode(item))
	}
	if request.Conversation != "" {
		u.kept[request.Conversation] = all
	}
	if request.Store == nil || *request.Store {
		u.kept[fmt.Sprintf("resp_%d", n)] = all
	}
	return nil
}

// refuse answers with an error in OpenAI's format.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, "%s", encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "invalid_request_error", "param": "messages", "code": nil}}))
}

// answer sends a whole answer or an error.
func (u *Upstream) answer(w http.ResponseWriter, r *http.Request, s *Answer, whole func() []byte) {
	w.Header().Set("Content-Type", "application/json")
	if s.Wait {
		u.wait(r)
		return
	}
	body := []byte(s.Body)
	if s.Status == 0 {
		s.Status, body = http.StatusOK, whole()
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(s.Status)
	if s.Cut {
		fmt.Fprintf(w, "%s", body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%s", body)
}

// stream sends an answer as a stream, flushing each event.
func (u *Upstream) stream(w http.ResponseWriter, r *http.Request, s *Answer, events [][]byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range events {
		fmt.Fprintf(w, "%s", event)
		w.(http.Flusher).Flush()
	}
	if s.Wait {
		u.wait(r)
	}
	if s.Cut {
		panic(http.ErrAbortHandler)
	}
}

// wait waits until the client leaves.
func (u *Upstream) wait(r *http.Request) {
	u.waiting <- struct{}{}
	<-r.Context().Done()
	u.left <- struct{}{}
}

// Bytes returns the encoded body of an answer and its media type, for servers that send it
// themselves.
func Bytes(a Answer, h Habit, stream bool) (body []byte, kind string) {
	s := sending{a, h, 1, "m"}
	if stream {
		return bytes.Join(s.events(false), nil), "text/event-stream"
	}
	return s.whole(), "application/json"
}
