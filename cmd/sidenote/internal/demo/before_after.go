package demo

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/rewrite"
)

// The screen's limits: lines of a source's text, sources shown, ledger rows that are in and out,
// lines of the answer.
const (
	textLines   = 1
	sourcesFull = 1
	ledgerIn    = 5
	ledgerOut   = 3
	answerLines = 5
)

// request shows what the app sent and what the model got.
func (p *painter) request(s Story) {
	kept := fmt.Sprintf("the %s are all there, in order", terminal.Thousands(len(s.Original)))
	if !s.Intact() {
		kept = "NOT all of the app's bytes are there"
	}
	p.line("   request, as sent %s B → as the model got it %s B   (%s)", terminal.Thousands(len(s.Original)), terminal.Thousands(len(s.Rewritten)), kept)
	role, before, block := split(s.Rewritten)
	if block == "" {
		p.line("     nothing was added")
		return
	}
	if before == "" {
		p.line("     %q: %q, \"content\":", "role", role)
	} else {
		p.line("     %q: %q, \"content\": %q", "role", role, before)
	}
	p.block(strings.Split(strings.TrimRight(block, "\n"), "\n"))
}

// split finds the first message with a block and splits its text there.
func split(body []byte) (role, before, block string) {
	var req chatRequest
	if json.Unmarshal(body, &req) != nil {
		return "", "", ""
	}
	for _, m := range req.Messages {
		text := string(m.Content)
		at := strings.Index(text, "<sources>")
		if c := strings.Index(text, "<component "); at < 0 || c >= 0 && c < at {
			at = c
		}
		if at >= 0 {
			return m.Role, strings.TrimRight(text[:at], "\n"), text[at:]
		}
	}
	return "", "", ""
}

// block shows the added lines; without Full, only the first source and the beginning of its text.
func (p *painter) block(lines []string) {
	if p.look.Full {
		for _, line := range lines {
			p.added(line)
		}
		return
	}
	inside, told, sources, hidden := false, 0, 0, 0
	from := beginning(lines)
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "<source "):
			inside, told = true, 0
			if sources++; sources <= sourcesFull {
				p.added(line)
			}
		case line == "</source>":
			inside = false
			if sources == sourcesFull && hidden > 0 {
				p.added(fmt.Sprintf("…%s(%d more lines, --full shows all)", strings.Repeat(" ", 48), hidden))
			}
			if sources == sourcesFull {
				p.added(line)
			}
		case !inside:
			if line == "</sources>" && sources > sourcesFull {
				p.added(fmt.Sprintf("… and %d more sources", sources-sourcesFull))
			}
			p.added(line)
		case sources > sourcesFull || i < from || told >= textLines || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			if sources <= sourcesFull {
				hidden++
			}
		default:
			told++
			p.added(line)
		}
	}
}

// beginning returns the line at which the retrieved section begins in the first source; the text
// before it is added context. It returns 0 if there is no such line.
func beginning(lines []string) int {
	head := ""
	for i, line := range lines {
		switch {
		case head == "" && strings.HasPrefix(line, "<source "):
			head = html.UnescapeString(line)
		case line == "</source>":
			return 0
		case head != "" && strings.HasPrefix(line, "#"):
			title := strings.TrimSpace(strings.TrimLeft(line, "#"))
			if strings.HasSuffix(head, ` section="`+title+`">`) || strings.HasSuffix(head, " > "+title+`">`) {
				return i
			}
		}
	}
	return 0
}

// ledger shows the token budget and the decision about each source.
func (p *painter) ledger(l rewrite.Ledger) {
	p.line("   budget %s tokens   used %s %s (%s): rules %s, tags %s, text %s", terminal.Thousands(l.Budget), terminal.Thousands(l.Used), l.Exactness,
		l.Encoding, terminal.Thousands(l.Rules), terminal.Thousands(l.Tags), terminal.Thousands(l.Text))
	rows := l.Sources
	if !p.look.Full {
		rows = shown(rows)
	}
	for _, src := range rows {
		p.line("     %s %s %s %s%s", pad(string(src.Inclusion), 4), pad(terminal.Mark(src.ID), 4), pad(src.Doc, 15), pad(src.Section, 24),
			detail(src.Inclusion, src.Tokens, src.Demand, fmt.Sprintf("   score %.1f", src.Score), src.Detail))
	}
	if left := len(l.Sources) - len(rows); left > 0 {
		p.line("     … and %d more, --full shows all", left)
	}
	for _, c := range l.Components {
		if c.Name != rewrite.SourcesName {
			p.line("     %s      %s %s%s", pad(string(c.Inclusion), 4), pad(c.Name, 15), pad("", 24), detail(c.Inclusion, c.Tokens, c.Demand, "", c.Detail))
		}
	}
}

// shown returns the first few sources that are in, and that are out.
func shown(all []rewrite.SourceEntry) []rewrite.SourceEntry {
	var rows []rewrite.SourceEntry
	in, out := 0, 0
	for _, src := range all {
		if src.Inclusion == rewrite.Excluded {
			out++
		} else {
			in++
		}
		if src.Inclusion == rewrite.Excluded && out <= ledgerOut || src.Inclusion != rewrite.Excluded && in <= ledgerIn {
			rows = append(rows, src)
		}
	}
	return rows
}

// detail returns the last column of a row: the tokens and of for a source that is in, or why it is
// out.
func detail(fate rewrite.Inclusion, tokens, demand int, of, why string) string {
	switch fate {
	case rewrite.Included:
		return fmt.Sprintf("%6s%s", terminal.Thousands(tokens), of)
	case rewrite.Cut:
		return fmt.Sprintf("%6s of %s", terminal.Thousands(tokens), terminal.Thousands(demand))
	}
	return "   " + why
}
