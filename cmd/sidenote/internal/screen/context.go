package screen

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sidenote/cmd/internal/terminal"
	"sidenote/rewrite"
)

// Context shows the messages that were built from chunks, the excluded chunks, and how many
// sources are included.
func Context(w io.Writer, r *rewrite.Assembled) error {
	c := r.Ledger.Chunks
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tTOKENS\tCHUNKS")
	for _, m := range c.Messages {
		fmt.Fprintf(t, "%s\t%d\t%s\n", m.Role, m.Tokens, terminal.Clean(strings.Join(m.ChunkIDs, " ")))
	}
	for _, part := range r.Ledger.Components {
		if part.Inclusion != rewrite.Excluded {
			fmt.Fprintf(t, "%s\t%d\t%s\n", "", part.Tokens, part.Name)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range c.Excluded {
		fmt.Fprintf(w, "out %s  %s\n", terminal.Clean(x.ID), terminal.Clean(strings.TrimSpace(string(x.Reason)+"  "+x.Detail)))
	}
	if n := r.Ledger.TotalChunksRetrieved; n > 0 {
		fmt.Fprintf(w, "%d of %s\n", r.Ledger.ChunksSelected, terminal.Plural(n, "source"))
	}
	exact := "estimated"
	if r.Exact {
		exact = "exact"
	}
	_, err := fmt.Fprintf(w, "%d of %d chunks, %s tokens, %s (%s)\n", c.In, c.Total, terminal.Thousands(r.TokenCount), exact, r.Ledger.Encoding)
	return err
}
