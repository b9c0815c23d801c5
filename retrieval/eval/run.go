package eval

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"
)

// WriteRun writes the rankings of outcomes as a TREC run, which trec_eval reads: lines of query
// id, Q0, document id, rank from 1, score and tag. White space in ids is percent-encoded, since it
// separates the columns. trec_eval ranks by score, and orders equal scores the opposite way to
// Rank.
func WriteRun(w io.Writer, outcomes []Outcome, tag string) error {
	out := bufio.NewWriter(w)
	for _, o := range outcomes {
		query := column(o.Query.ID)
		for i, doc := range o.Ranking {
			fmt.Fprintf(out, "%s Q0 %s %d %g %s\n", query, column(doc), i+1, o.Scores[i], tag)
		}
	}
	return out.Flush()
}

// column returns an id with its white space percent-encoded.
func column(id string) string {
	if !strings.ContainsFunc(id, unicode.IsSpace) {
		return id
	}
	var b strings.Builder
	for _, r := range id {
		if unicode.IsSpace(r) {
			b.WriteString(url.PathEscape(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
