package demo

import (
	"cmp"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// NoAnswer is the stub's answer if no source fits.
const NoAnswer = "I have been given no document that answers this."

// A sentence is a sentence of a source that shares words with the question.
type sentence struct {
	id, text string
	shared   int
	at       int // order in the prompt
}

// sourceElement matches a source in a prompt: its id and its text.
var sourceElement = regexp.MustCompile(`(?s)<source id="(\d+)"[^>]*>\n(.*?)\n</source>`)

// relevant returns, for each source in text, the sentence that shares the most words with
// question. Sources that share hardly any are left out.
func relevant(text, question string) []sentence {
	asked := words(question)
	var found []sentence
	for _, src := range sourceElement.FindAllStringSubmatch(text, -1) {
		id, body := src[1], html.UnescapeString(src[2])
		var best sentence
		for _, s := range sentences(body) {
			shared := 0
			for w := range words(s) {
				if asked[w] {
					shared++
				}
			}
			if shared > best.shared {
				best = sentence{id: id, text: s, shared: shared, at: len(found)}
			}
		}
		if best.shared >= 2 || best.shared > 0 && len(asked) < 3 {
			found = append(found, best)
		}
	}
	slices.SortStableFunc(found, func(a, b sentence) int { return cmp.Compare(b.shared, a.shared) })
	return found
}

// Answer quotes the two sentences from different sources in text that share the most words with
// question, each with its source's id.
func Answer(text, question string) string {
	return quoted(relevant(text, question))
}

// quoted quotes the first two sentences.
func quoted(found []sentence) string {
	if len(found) == 0 {
		return NoAnswer
	}
	var parts []string
	for _, s := range found[:min(2, len(found))] {
		parts = append(parts, cite(s))
	}
	return strings.Join(parts, " ")
}

// cite returns a sentence with its source's id.
func cite(s sentence) string { return strings.TrimRight(s.text, ".!?") + " [" + s.id + "]." }

// sentences splits Markdown into sentences, without headings.
func sentences(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for len(line) > 0 {
			end := strings.Index(line, ". ")
			if end < 0 {
				out = append(out, line)
				break
			}
			out = append(out, line[:end+1])
			line = strings.TrimSpace(line[end+1:])
		}
	}
	return out
}

// words returns the set of words of more than three letters in text, without a plural s.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if w = strings.TrimSuffix(w, "s"); len(w) > 3 {
			set[w] = true
		}
	}
	return set
}
