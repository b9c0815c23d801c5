package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Part is the role of a Stub in an answer in stages. The Stub recognises it by the wording of
// the presets' prompts.
type Part string

// The parts.
const (
	PartAnswer   Part = "answer" // an ordinary chat
	PartEvidence Part = "evidence"
	PartDraft    Part = "draft"
	PartCritique Part = "critique"
	PartFinal    Part = "final"
)

// The only first line of a stage that finds nothing.
const (
	noEvidence = "NO EVIDENCE"
	noIssues   = "NO ISSUES"
)

// UnsupportedClaim is a claim in the Stub's draft that no source supports, for the critique to
// find.
const UnsupportedClaim = "Nobody has ever been refused this"

// quotedPart matches quotations in a prompt, which say nothing about the part.
var quotedPart = regexp.MustCompile(`(?s)<sources>.*?</sources>|<stage name="[^"]*">\n.*?\n</stage>|<history>.*?</history>|<question>.*?</question>`)

// partOf returns the part that a prompt asks for.
func partOf(prompt string) Part {
	asks := quotedPart.ReplaceAllString(prompt, "")
	switch {
	case strings.Contains(asks, noIssues):
		return PartCritique
	case strings.Contains(asks, noEvidence):
		return PartEvidence
	case strings.Contains(asks, "Its review:"):
		return PartFinal
	case strings.Contains(prompt, "<question>"):
		return PartDraft
	}
	return PartAnswer
}

// play answers a prompt, or an ordinary chat with the texts all, from the sources in it.
func play(all, prompt string) (Part, string) {
	part := partOf(prompt)
	question := strings.TrimSpace(between(prompt, "<question>", "</question>"))
	switch part {
	case PartEvidence:
		return part, evidence(prompt, question)
	case PartDraft:
		return part, draft(prompt, question)
	case PartCritique:
		return part, critique(prompt)
	case PartFinal:
		return part, final(prompt)
	}
	return part, Answer(all, prompt)
}

// between returns the first text between two others, or "".
func between(text, open, end string) string {
	_, rest, found := strings.Cut(text, open)
	inside, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		return ""
	}
	return inside
}

// output returns the output of an earlier stage that a prompt quotes after a heading, or "".
func output(prompt, heading string) string {
	_, rest, _ := strings.Cut(prompt, heading+"\n")
	if !strings.HasPrefix(rest, "<stage ") {
		return ""
	}
	return between(rest, ">\n", "\n</stage>")
}

// evidence lists a sentence of each relevant source, in the format that the prompt wants.
func evidence(prompt, question string) string {
	found := relevant(prompt, question)
	if len(found) == 0 {
		return noEvidence
	}
	var lines []string
	for _, s := range found {
		line := cite(s)
		if strings.Contains(prompt, "Core evidence:") {
			line = fmt.Sprintf("[%s] Relevance: high. Level: unknown. Core evidence: %s", s.id, s.text)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, "Missing: nothing."), "\n")
}

// citedID matches the first id that a line cites.
var citedID = regexp.MustCompile(` ?\[(\d+)\]`)

// draft answers from the evidence, or from the sources if there is none. With two or more
// statements it adds UnsupportedClaim.
func draft(prompt, question string) string {
	var found []sentence
	for _, heading := range []string{"The evidence:", "The evaluation of these sources:"} {
		for line := range strings.Lines(output(prompt, heading)) {
			m := citedID.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			text := strings.Replace(line, m[0], "", 1)
			if _, core, ok := strings.Cut(line, "Core evidence: "); ok {
				text = core
			}
			found = append(found, sentence{id: m[1], text: strings.TrimSpace(text)})
		}
	}
	if len(found) == 0 {
		found = relevant(prompt, question)
	}
	text := quoted(found)
	if len(found) > 1 {
		text += " " + cite(sentence{id: found[0].id, text: UnsupportedClaim})
	}
	return text
}

// critique names the statements of the draft whose words are not in the sources that they cite.
func critique(prompt string) string {
	texts := map[string]map[string]bool{}
	for _, src := range sourceElement.FindAllStringSubmatch(prompt, -1) {
		texts[src[1]] = words(src[2])
	}
	var issues []string
	for _, statement := range sentences(output(prompt, "The draft:")) {
		m := citedID.FindStringSubmatch(statement)
		if m == nil {
			continue
		}
		said, held := words(statement), 0
		for w := range said {
			if texts[m[1]][w] {
				held++
			}
		}
		if 2*held < len(said) {
			issues = append(issues, fmt.Sprintf("\"%s\": made up; source %s does not say so.", strings.TrimSuffix(statement, "."), m[1]))
		}
	}
	if len(issues) == 0 {
		return noIssues
	}
	return strings.Join(issues, "\n")
}

// final returns the draft without the statements that its review names.
func final(prompt string) string {
	review := output(prompt, "Its review:")
	kept := slices.DeleteFunc(sentences(output(prompt, "The draft:")), func(statement string) bool {
		return strings.Contains(review, strings.TrimSuffix(statement, "."))
	})
	if len(kept) == 0 {
		return NoAnswer
	}
	return strings.Join(kept, " ")
}
