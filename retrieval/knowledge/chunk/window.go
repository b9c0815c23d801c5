package chunk

import (
	"iter"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

const (
	// maxWindow is how many bytes of a document are parsed at once: the syntax tree takes up to
	// three hundred times as much memory.
	maxWindow = 256 << 10
	// maxListing is the length, in bytes, up to which a window does not cut a listing.
	maxListing = 1 << 20
)

// windows returns the parts of a body that are parsed one after the other. Most bodies have one.
// Longer ones are cut before a heading, else after a blank line, else after any line, and not
// within a listing of up to maxListing bytes.
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

// Memory of a window's syntax tree per line, and per character that may be markup, in bytes.
const (
	memoryOfLine = 700
	memoryOfMark = 200
)

// Memory returns an upper bound for the memory of Cut for syntax trees, in bytes: that of one
// window, or of a whole source file.
func Memory(body string, form extract.Form) (bytes int64) {
	if form == extract.Code {
		return memoryOfLine * int64(strings.Count(body, "\n")+1)
	}
	for start, end := range windows(body) {
		lines, marks := 0, 0
		for i := start; i < end; i++ {
			switch body[i] {
			case '\n':
				lines++
			case '#', '*', '_', '[', ']', '<', '>', '`', '!', '&', '\\', '|', '~':
				marks++
			}
		}
		bytes = max(bytes, int64(memoryOfLine*lines+memoryOfMark*marks))
	}
	return bytes
}

// windowEnd returns the length of the first window of a long text.
func windowEnd(text string) int {
	heading, blank := 0, 0 // offsets of the last heading and the last blank line
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

// startsBlock reports whether a line after a blank line surely begins a new block: it cannot
// continue a list, a quote or an indented listing.
func startsBlock(line string) bool {
	return strings.TrimSpace(line) != "" && !strings.ContainsAny(line[:1], " \t>-*+0123456789")
}

// fenceAfter returns the fence that closes the listing that is open after a line; "" if none is
// open.
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
