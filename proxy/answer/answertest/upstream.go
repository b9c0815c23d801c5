// Package answertest is an upstream for tests that plays dialogues: what a model says in each
// round, and what it must have been asked.
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
	Waiting <-chan struct{} // gets a value when an answer begins to wait
	Left    <-chan struct{} // gets a value when the client of such an answer has left

	t        TB
	dialogue Dialogue
	habit    Habit
	waiting  chan struct{}
	left     chan struct{}

	mu       sync.Mutex
	requests [][]byte
}

// TB is what an Upstream needs of a test.
type TB interface {
	Helper()
	Errorf(format string, arguments ...any)
	Cleanup(func())
}

// Start starts an upstream, which ends with the test. A request fails the test, and gets
// OpenAI's 400, if it breaks the rules on tool messages (see package historytest) or if no
// answer is left; and so does an answer that nobody asked for.
func Start(t TB, d Dialogue, h Habit) *Upstream {
	t.Helper()
	n := len(d.Answers)
	u := &Upstream{t: t, dialogue: d, habit: h, waiting: make(chan struct{}, n), left: make(chan struct{}, n)}
	u.Waiting, u.Left = u.waiting, u.left
	server := httptest.NewServer(u)
	u.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // ends what still waits
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
	if r.Method != http.MethodPost { // somebody asks whether it is there
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
	if err == nil {
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
	s := sending{u.dialogue.Answers[n-1], u.habit, n, request.Model}
	if request.Stream && s.Status == 0 {
		u.stream(w, r, &s, request.StreamOptions.IncludeUsage)
		return
	}
	u.answer(w, r, &s)
}

// refuse answers as OpenAI does.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, "%s", encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "invalid_request_error", "param": "messages", "code": nil}}))
}

// answer sends an answer that is no stream.
func (u *Upstream) answer(w http.ResponseWriter, r *http.Request, s *sending) {
	w.Header().Set("Content-Type", "application/json")
	if s.Wait {
		u.wait(r)
		return
	}
	body := []byte(s.Body)
	if s.Status == 0 {
		s.Status, body = http.StatusOK, s.whole()
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(s.Status)
	if s.Cut {
		fmt.Fprintf(w, "%s", body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%s", body)
}

// stream sends an answer as a stream, each event on its own.
func (u *Upstream) stream(w http.ResponseWriter, r *http.Request, s *sending, includeUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range s.events(includeUsage) {
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

// Bytes returns the body of an answer, for servers that send it themselves, and its media type.
func Bytes(a Answer, h Habit, stream bool) (body []byte, kind string) {
	s := sending{a, h, 1, "m"}
	if stream {
		return bytes.Join(s.events(false), nil), "text/event-stream"
	}
	return s.whole(), "application/json"
}
