// Package evaluation shows how well the queries of a collection are answered: as a screen
// and as JSON.
package evaluation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

// An Evaluation has a collection and the outcomes of its queries, and of messages that no
// document answers where there are any.
type Evaluation struct {
	Name     string
	Data     *eval.Collection
	Chunks   int
	Index    time.Duration
	Settings retrieval.Settings // of the requests
	Outcomes []eval.Outcome
	Messages []eval.Message
	OffTopic []eval.OffTopic // of those of Messages that were asked
}

// Undone returns an error that says what the numbers leave out; nil if nothing.
func (e *Evaluation) Undone() error {
	var parts []string
	if asked, all := len(e.Outcomes), len(e.Data.Queries); asked < all {
		parts = append(parts, fmt.Sprintf("stopped after %d of %d queries", asked, all))
	}
	if asked, all := len(e.OffTopic), len(e.Messages); asked < all {
		parts = append(parts, fmt.Sprintf("stopped after %d of %d off-topic messages", asked, all))
	}
	if n := e.Data.UnknownQueries; n > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s not in queries.jsonl, so not asked", console.Plural(n, "query id"), e.Data.Judgments))
	}
	if n := e.Data.UnknownDocuments; n > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s not in corpus.jsonl, so never found", console.Plural(n, "document id"), e.Data.Judgments))
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New("done in part: " + strings.Join(parts, "; "))
}

// injected returns the share of the off-topic messages that get sources; 0 of none.
func (e *Evaluation) injected() float64 {
	if len(e.OffTopic) == 0 {
		return 0
	}
	return float64(len(eval.Injected(e.OffTopic))) / float64(len(e.OffTopic))
}
