package screen

import (
	"fmt"
	"io"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/explain"
)

// Embeddings prints the embedding status of a base; nothing for nil.
func Embeddings(w io.Writer, e *explain.Embeddings) {
	if e == nil {
		return
	}
	line := fmt.Sprintf("embedded    %s of %s, by %s", terminal.Thousands(e.Embedded), terminal.Plural(e.Chunks, "chunk"), terminal.Clean(e.Model))
	if e.DenseWeight != nil {
		line += fmt.Sprintf("; dense weight %.2f", *e.DenseWeight)
	}
	if e.Running {
		line += "; others are being embedded"
	}
	if e.Refused > 0 {
		line += fmt.Sprintf("; the service refused %s", terminal.Thousands(e.Refused))
	}
	if e.Error != "" {
		line += "; " + terminal.Clean(e.Error)
	}
	fmt.Fprintln(w, line)
	if e.Useless() {
		fmt.Fprintln(w, "warning     vectors find nothing here that words miss, so they are not used; does the model know the language?")
	}
}
