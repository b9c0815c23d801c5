package services

import "strings"

// thoughts are the tags that enclose the reasoning in front of an answer.
var thoughts = [...][2]string{
	{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<thought>", "</thought>"}, {"<reasoning>", "</reasoning>"},
	{"[THINK]", "[/THINK]"}, // Magistral
}

// ThinkingTags returns the opening and closing tags that enclose the reasoning in front of an
// answer.
func ThinkingTags() [len(thoughts)][2]string { return thoughts }

const space = " \t\r\n\ufeff"

// WithoutThinking removes the reasoning in front of an answer. The result is empty if the answer
// was cut off while reasoning. If the chat template contains the opening tag, the answer has only
// the closing one, at the end of a line.
func WithoutThinking(answer string) string {
	if rest, ok := closed(answer); ok {
		answer = rest
	}
	for {
		begun := strings.TrimLeft(answer, space)
		open, end := opening(begun)
		if open == "" {
			return answer
		}
		_, rest, ok := strings.Cut(begun[len(open):], end)
		if !ok {
			return ""
		}
		answer = strings.TrimLeft(rest, space)
	}
}

// opening returns the tags of the reasoning that a text begins with; "" if there is none.
func opening(text string) (open, end string) {
	for _, tags := range thoughts {
		if strings.HasPrefix(text, tags[0]) {
			return tags[0], tags[1]
		}
	}
	return "", ""
}

// closed returns the text after reasoning that has no opening tag.
func closed(answer string) (rest string, ok bool) {
	const open, end = "<think>", "</think>"
	before, rest, found := strings.Cut(answer, end)
	line := strings.TrimLeft(rest, " \t")
	if !found || strings.Contains(before, open) || line != "" && line[0] != '\n' && line[0] != '\r' {
		return "", false
	}
	return strings.TrimLeft(rest, space), true
}
