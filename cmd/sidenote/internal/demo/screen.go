package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sidenote/cmd/internal/terminal"
	"sidenote/rewrite"
)

// Width is the maximum width of a screen, in columns.
const Width = 100

// A Story is the content of a screen: the path of one request through Sidenote.
type Story struct {
	Question  string         `json:"question"`
	Documents int            `json:"documents"`
	Chunks    int            `json:"chunks"`
	Original  []byte         `json:"-"` // the request as the app sent it
	Rewritten []byte         `json:"-"` // as it reached the model
	Ledger    rewrite.Ledger `json:"ledger"`
	Answer    string         `json:"answer"`
	Address   string         `json:"address"` // where apps would send requests, host:port

	Index  time.Duration `json:"index_ns"`
	Search time.Duration `json:"search_ns"`
	Fit    time.Duration `json:"fit_ns"`
	Edit   time.Duration `json:"edit_ns"`
	Again  time.Duration `json:"again_ns"`  // the same search repeated
	Cached bool          `json:"again_hit"` // whether that was a cache hit
}

// Arrived reports whether the model was shown the sources that the ledger names.
func (s Story) Arrived() bool {
	n := 0
	for _, src := range s.Ledger.Sources {
		if src.Inclusion != rewrite.Excluded {
			n++
			if !bytes.Contains(s.Rewritten, fmt.Appendf(nil, `<source id=\"%d\" `, src.ID)) {
				return false
			}
		}
	}
	return n > 0
}

// Intact reports whether the model got every byte of the app's request, in order.
func (s Story) Intact() bool {
	rest := s.Rewritten
	for _, b := range s.Original {
		at := bytes.IndexByte(rest, b)
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// JSON returns the story as JSON, with both requests unchanged.
func (s Story) JSON() ([]byte, error) {
	return json.MarshalIndent(struct {
		Story
		Original  json.RawMessage `json:"request"`
		Rewritten json.RawMessage `json:"rewritten"`
		Arrived   bool            `json:"sources_arrived"`
	}{s, s.Original, s.Rewritten, s.Arrived()}, "", "  ")
}

// A Look says how a screen is drawn.
type Look struct {
	Full  bool // all lines of the block, untruncated
	Color bool // for a terminal
}

// Render draws the screen: at most 40 lines of at most Width columns, unless look.Full.
func Render(s Story, look Look) string {
	p := painter{look: look}
	p.beginning(s.Documents, s.Chunks, s.Index)
	p.line("2  upstream   built-in stub, answers only from what it is shown")
	p.line("3  question   %q", s.Question)
	p.line("")
	p.request(s)
	p.line("")
	p.ledger(s.Ledger)
	p.line("")
	p.answer(s)
	p.line("")
	p.line("Ask it something yourself: sidenote demo --serve, then")
	p.line("  curl -si http://%s/v1/chat/completions -H 'content-type: application/json' \\", s.Address)
	p.line(`    -d '{"model":"demo","messages":[{"role":"user","content":"Can I work from abroad?"}]}'`)
	p.line("Your own folder:           sidenote serve --upstream https://api.openai.com --knowledge ./docs")
	return p.b.String()
}

type painter struct {
	b    strings.Builder
	look Look
}

// beginning shows a title and what was indexed.
func (p *painter) beginning(documents, chunks int, took time.Duration) {
	p.line("Sidenote demo: everything on this machine, no key, no network")
	p.line("")
	indexed := fmt.Sprintf("1  knowledge  demo: %s documents, %s chunks", terminal.Thousands(documents), terminal.Thousands(chunks))
	p.line("%s%s", pad(indexed, 80), terminal.Short(took, 0.1))
}

// line writes one line, truncated to the width with an ellipsis.
func (p *painter) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if !p.look.Full {
		text = clip(text, Width)
	}
	p.b.WriteString(text + "\n")
}

// added writes a line that Sidenote added.
func (p *painter) added(text string) {
	text = "   +   " + text
	if !p.look.Full {
		text = clip(text, Width)
	}
	if p.look.Color {
		text = "\x1b[32m" + text + "\x1b[0m"
	}
	p.b.WriteString(text + "\n")
}

// answer writes the answer, the cited sources, and the times.
func (p *painter) answer(s Story) {
	lines := wrap(s.Answer, Width-14)
	if !p.look.Full && len(lines) > answerLines {
		lines = append(lines[:answerLines-1], "…")
	}
	for i, line := range lines {
		label := ""
		if i == 0 {
			label = "answer"
		}
		p.line("   %s%s", pad(label, 11), line)
	}
	var cited []int
	for _, src := range s.Ledger.Sources {
		if strings.Contains(s.Answer, fmt.Sprintf("[%d]", src.ID)) {
			cited = append(cited, src.ID)
		}
	}
	p.cited(s.Ledger.Sources, cited)
	again := "Asked again: " + terminal.Short(s.Again, 0.1)
	if s.Cached {
		again = "Asked again: cache=hit, " + terminal.Short(s.Again, 0.1)
	}
	p.line("   time       search %s, fit %s, edit %s.  %s", terminal.Short(s.Search, 0.1), terminal.Short(s.Fit, 0.1), terminal.Short(s.Edit, 0.1), again)
}

// cited lists the sources with these ids.
func (p *painter) cited(sources []rewrite.SourceEntry, ids []int) {
	var places []string
	for _, src := range sources {
		if src.ID > 0 && slices.Contains(ids, src.ID) {
			places = append(places, terminal.Mark(src.ID)+" "+place(src))
		}
	}
	if len(places) > 0 {
		p.line("   %s", strings.Join(places, "   "))
	}
}

func place(src rewrite.SourceEntry) string {
	if src.Section == "" {
		return src.Doc
	}
	return src.Doc + ", " + src.Section
}

// clip truncates text to n columns, counting each rune as one.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-2]) + " …"
}

// pad pads text with spaces to n columns.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-utf8.RuneCountInString(text), 1))
}

// wrap breaks text at spaces into lines of at most n columns, where possible.
func wrap(text string, n int) []string {
	var lines []string
	line := ""
	for w := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
