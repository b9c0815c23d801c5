package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sidenote/retrieval"
)

// A Message is one that no document answers, such as "thanks, that helped!". Its ID is the
// number of its line where the file gives none.
type Message = Query

// ReadMessages reads a file of messages. One whose name ends in .jsonl has lines as those of
// queries.jsonl, with an _id and a text; any other has a message a line. Blank lines are
// skipped. Errors name file and line; one for a file that is not there is an ErrNoCollection.
func ReadMessages(ctx context.Context, path string) ([]Message, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return nil, missing(path + " is not a file of messages")
	}
	dir, name := filepath.Split(path)
	var messages []Message
	var err error
	if filepath.Ext(name) == ".jsonl" {
		_, err = readDocuments(ctx, dir, name, func(r record) { messages = append(messages, Message{ID: r.ID, Text: r.Text, Turns: r.Turns}) })
	} else {
		err = readLines(ctx, dir, name, func(number int, line []byte) error {
			messages = append(messages, Message{ID: strconv.Itoa(number), Text: strings.TrimSpace(string(line))})
			return nil
		})
	}
	if err == nil && len(messages) == 0 {
		err = errors.New(path + " is empty")
	}
	return messages, err
}

// An OffTopic is the result of one message that no document answers.
type OffTopic struct {
	Message Message
	Sources []retrieval.Source // what a request would get all the same, best first
}

// OffTopic asks messages that no document answers, one after the other. Like Run it returns
// what it has if ctx ends before all are asked.
func (t Trial) OffTopic(ctx context.Context, messages []Message) ([]OffTopic, error) {
	results := make([]OffTopic, 0, len(messages))
	for i, m := range messages {
		query := t.Query
		query.Text, query.Previous, query.Planning, query.Reranking = m.Text, retrieval.Turns(m.Turns), t.planning(m), t.reranking()
		res, err := t.Request.Retrieve(ctx, t.graded(query))
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", m.ID, err)
		}
		results = append(results, OffTopic{Message: m, Sources: res.Sources})
		if t.Progress != nil {
			t.Progress(i + 1)
		}
	}
	return results, nil
}

// Injected returns those that get sources, in their order.
func Injected(results []OffTopic) []OffTopic {
	var injected []OffTopic
	for _, r := range results {
		if len(r.Sources) > 0 {
			injected = append(injected, r)
		}
	}
	return injected
}
