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

// A Message is a user message that no document answers, such as "thanks, that helped!". Its ID is
// its line number if the file has no id.
type Message = Query

// ReadMessages reads a file of messages. If its name ends in .jsonl, its lines have the form of
// queries.jsonl, with an _id and a text; otherwise each line is a message. Blank lines are
// skipped. Errors name file and line; if the file does not exist, the error is an ErrNoCollection.
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
	Sources []retrieval.Source // what a request would still get, best first
}

// OffTopic searches for messages that no document answers, one after the other. Like Run, it
// returns the results so far if ctx ends early.
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

// Injected returns the results with sources, in order.
func Injected(results []OffTopic) []OffTopic {
	var injected []OffTopic
	for _, r := range results {
		if len(r.Sources) > 0 {
			injected = append(injected, r)
		}
	}
	return injected
}
