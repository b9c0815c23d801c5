package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Chat sends questions to the proxy, one after the other.
type Chat struct {
	HTTP    *http.Client
	BaseURL string  // of the proxy, such as http://127.0.0.1:8080/v1
	Key     string  // sent as a bearer token; "": none
	Reports Reports // the proxy's Recorder
}

// Follow receives an answer while it arrives. Each field may be nil.
type Follow struct {
	Head  func(status string)           // the proxy begins to answer, with this Sidenote-Status
	Stage func(at, of int, name string) // a stage begins, or goes on
	Text  func(text string)             // more of the answer
}

// An Answer is the answer that a client got, with the proxy's report of it.
type Answer struct {
	ID     string // as returned by the upstream or the proxy
	Model  string
	Text   string
	Finish string // the finish reason; "" if none was given
	Took   time.Duration
	Report report.Report
}

// ErrIncomplete means that an answer was incomplete.
var ErrIncomplete = errors.New("the answer was cut off")

// A ChatRefusal is an error in place of an answer, or within it.
type ChatRefusal struct {
	Status  int    // 200: within a stream
	Message string // from the proxy or the upstream, so untrusted text
	Report  report.Report
}

func (r *ChatRefusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s: %s", r.Status, http.StatusText(r.Status), r.Message))
}

// reportWait limits the wait for the report of a complete answer.
const reportWait = 5 * time.Second

// Ask sends the body of a chat and reads the whole answer. The error is a *ChatRefusal if there is
// no answer; with ErrIncomplete, the Answer holds what arrived.
func (c *Chat) Ask(ctx context.Context, body []byte, f Follow) (Answer, error) {
	began := time.Now()
	req, err := c.request(ctx, http.MethodPost, "/chat/completions", bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if f.Head != nil && resp.StatusCode == http.StatusOK {
		f.Head(resp.Header.Get(report.HeaderStatus))
	}
	answer, err := read(resp, f)
	answer.Took = time.Since(began)
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	var missing error
	if answer.Report, missing = c.Reports.next(ctx); missing != nil {
		return answer, errors.Join(err, missing)
	}
	if refusal := (*ChatRefusal)(nil); errors.As(err, &refusal) {
		refusal.Report = answer.Report
	}
	return answer, err
}

func (c *Chat) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return req, nil
}

// maxList limits the list of models that is read, in bytes.
const maxList = 4 << 20

// Models lists the models of the upstream.
func (c *Chat) Models(ctx context.Context) ([]string, error) {
	req, err := c.request(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	var list struct{ Data []struct{ ID string } }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("list models: %s", resp.Status), err)
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, nil
}

// read reads an answer, streamed or not.
func read(resp *http.Response, f Follow) (Answer, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return readStream(resp.Body, f)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	var whole completion
	if invalid := json.Unmarshal(text, &whole); err == nil {
		err = invalid
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		message := whole.Error.message()
		if err != nil {
			message = string(text)
		}
		return Answer{}, &ChatRefusal{Status: resp.StatusCode, Message: message}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Answer{}, ErrIncomplete
	case err != nil || len(whole.Choices) == 0:
		return Answer{}, &ChatRefusal{Status: resp.StatusCode, Message: "the answer is not one to a chat"}
	}
	a := Answer{ID: whole.ID, Model: whole.Model, Text: whole.Choices[0].Message.text(), Finish: whole.Choices[0].Finish}
	if f.Text != nil {
		f.Text(a.Text)
	}
	return a, nil
}

// Reports is a report.Recorder that passes on the reports of chats. It holds one report until it
// is taken; further ones are lost.
type Reports chan report.Report

// NewReports returns empty Reports.
func NewReports() Reports { return make(Reports, 1) }

// Record keeps a copy of the report of a chat.
func (rs Reports) Record(r *report.Report) {
	if !r.Route.Rewritten() {
		return
	}
	kept := *r
	kept.Calls = slices.Clone(r.Calls)
	if r.Stages != nil {
		stages := *r.Stages
		stages.Called = slices.Clone(stages.Called)
		kept.Stages = &stages
	}
	if r.Tools != nil {
		tools := *r.Tools
		kept.Tools = &tools
	}
	select {
	case rs <- kept:
	default:
	}
}

// next waits for the next report.
func (rs Reports) next(ctx context.Context) (report.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	select {
	case r := <-rs:
		return r, nil
	case <-ctx.Done():
		return report.Report{}, fmt.Errorf("wait for the report of an answer: %w", ctx.Err())
	}
}

// Sources returns the sources that the model was shown, in the order of their ids.
func (a *Answer) Sources() []rewrite.SourceEntry {
	var all []rewrite.SourceEntry
	if a.Report.Injected() { // in mode shadow the model sees none
		all = a.Report.Rewrite.Ledger.Sources
	}
	if t := a.Report.Tools; t != nil {
		all = slices.Concat(all, t.Sources)
	}
	shown := slices.DeleteFunc(slices.Clone(all), func(s rewrite.SourceEntry) bool { return s.ID == 0 })
	slices.SortStableFunc(shown, func(a, b rewrite.SourceEntry) int { return a.ID - b.ID })
	return shown
}

// citation matches a citation of a source id in an answer.
var citation = regexp.MustCompile(`\[(\d{1,4})\]`)

// Cited returns the distinct ids that a text cites, in order of first citation.
func Cited(text string) []int {
	var ids []int
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		if id, _ := strconv.Atoi(m[1]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Question returns a streamed chat with one question; usage requests token usage.
func Question(model, question string, usage bool) map[string]any {
	chat := map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": question}}}
	if usage {
		chat["stream_options"] = map[string]bool{"include_usage": true}
	}
	return chat
}
