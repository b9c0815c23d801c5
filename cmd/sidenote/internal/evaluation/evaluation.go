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

// An Evaluation has a collection and the outcomes of its queries.
type Evaluation struct {
	Name     string
	Data     *eval.Collection
	Chunks   int
	Index    time.Duration
	Settings retrieval.Settings // of the requests
	Outcomes []eval.Outcome
}

// Undone returns an error that says what the numbers leave out; nil if nothing.
func (e *Evaluation) Undone() error {
	var parts []string
	if asked, all := len(e.Outcomes), len(e.Data.Queries); asked < all {
		parts = append(parts, fmt.Sprintf("stopped after %d of %d queries", asked, all))
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
