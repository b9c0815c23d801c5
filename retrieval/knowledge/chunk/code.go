package chunk

import (
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// codeBlocks returns the declarations of source code. A declaration too long for a chunk is
// divided at its members, or at lines if it has none.
func (c *cutter) codeBlocks(lang string) []block {
	parts := extract.Outline(lang, c.body, func(text string) bool {
		return len(text) <= MaxTokens || len(text) <= MaxTokens*maxTokenBytes && c.count(text) <= MaxTokens
	})
	blocks := make([]block, 0, len(parts))
	parts = append(parts, extract.Part{Start: len(c.body)})
	for i, p := range parts[:len(parts)-1] {
		end := parts[i+1].Start
		for from, to := range windows(c.body[p.Start:end]) { // nearly always just one
			blocks = append(blocks, block{
				start: p.Start + from, end: p.Start + to, lined: true, declares: true, heading: p.Name, head: p.Head,
			})
		}
	}
	return blocks
}

// maxNames limits the names of a section, in bytes.
const maxNames = 80

// mergedNames returns the names that two merged chunks declare.
func mergedNames(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	names := a[0] + ", " + b[0]
	if len(names) > maxNames {
		names = strings.TrimSuffix(a[0], ", …") + ", …"
	}
	return []string{names}
}
