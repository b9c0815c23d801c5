package chunk

import (
	"iter"
	"strings"
)

const (
	// maxWindow is how much of a document is told apart into blocks at once, in
	// bytes: a tree of Markdown takes three hundred times its text at worst.
	maxWindow = 256 << 10
	// maxListing is how long a listing may be that is not cut by a window.
	maxListing = 1 << 20
)

// windows returns the parts of a body that are read one after the other. Most
// bodies are one; a longer one is cut before a heading, else after a blank line,
// else after a line, and never within a listing that is not as long as a book.
func windows(body string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start := 0; start < len(body); {
			end := len(body)
			if end-start > maxWindow {
				end = start + windowEnd(body[start:])
			}
			if !yield(start, end) {
				return
			}
			start = end
		}
	}
}

// windowEnd returns how long the first window of a long text is.
func windowEnd(text string) int {
	heading, blank := 0, 0 // where the last good place of each kind is
	fence := ""
	wasBlank := false
	at := 0
	for line := range strings.Lines(text) {
		if at > maxWindow && (fence == "" || at > maxListing) {
			break
		}
		if fence == "" && at > 0 {
			switch {
			case strings.HasPrefix(line, "#"):
				heading = at
			case wasBlank && startsBlock(line):
				blank = at
			}
		}
		fence = fenceAfter(fence, line)
		wasBlank = strings.TrimSpace(line) == ""
		at += len(line)
	}
	switch {
	case heading > maxWindow/2:
		return heading
	case blank > maxWindow/2:
		return blank
	}
	return at
}

// startsBlock tells whether a line after a blank one is surely no part of a list,
// a quote or an indented listing.
func startsBlock(line string) bool {
	return strings.TrimSpace(line) != "" && !strings.ContainsAny(line[:1], " \t>-*+0123456789")
}

// fenceAfter returns what closes the listing that is open after a line, "" for none.
func fenceAfter(open, line string) string {
	trimmed := strings.TrimLeft(line, " ")
	if open != "" {
		if rest, ok := strings.CutPrefix(trimmed, open); ok && strings.Trim(rest, open[:1]+" \t\n") == "" {
			return ""
		}
		return open
	}
	for _, c := range [...]string{"`", "~"} {
		if n := len(trimmed) - len(strings.TrimLeft(trimmed, c)); n >= 3 {
			return trimmed[:n]
		}
	}
	return ""
}
