package screen

import (
	"fmt"
	"io"

	"sidenote/cmd/internal/console"
	"sidenote/proxy/admin"
)

// Embeddings prints how far the chunks of a base are embedded; nothing of nil.
func Embeddings(w io.Writer, e *admin.Embeddings) {
	if e == nil {
		return
	}
	line := fmt.Sprintf("embedded    %s of %s, by %s", console.Thousands(e.Embedded), console.Plural(e.Chunks, "chunk"), console.Clean(e.Model))
	if e.DenseWeight != nil {
		line += fmt.Sprintf("; dense weight %.2f", *e.DenseWeight)
	}
	if e.Running {
		line += "; others are being embedded"
	}
	if e.Refused > 0 {
		line += fmt.Sprintf("; the service refused %s", console.Thousands(e.Refused))
	}
	if e.Error != "" {
		line += "; " + console.Clean(e.Error)
	}
	fmt.Fprintln(w, line)
}
