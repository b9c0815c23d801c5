package billing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// An app is a client of an upstream that bills by a rule.
type app struct {
	rule  billing.Rule
	api   billing.API
	model string
	marks markStyle
}

// A markStyle says which marks an app sets.
type markStyle string

const (
	noMarks     markStyle = "no marks"
	systemMark  markStyle = "system"       // on its system message
	bothMarks   markStyle = "system, user" // on its system message and its newest message, as Claude Code does
	hourMark    markStyle = "system 1h, user"
	autoMark    markStyle = "automatic"    // the mark of the whole request
	withTools   markStyle = "none, tools"  // none, and it offers tools
	storedItems markStyle = "none, stored" // none, and the upstream stores the conversation
)

// apps are the apps of the table.
var apps = []app{
	{billing.Breakpoints, billing.Chat, "gpt-5.6", noMarks},
	{billing.Breakpoints, billing.Chat, "gpt-5.6", withTools},
	{billing.Breakpoints, billing.Chat, "gpt-5.6", systemMark},
	{billing.Breakpoints, billing.Chat, "gpt-5.6", bothMarks},
	{billing.Breakpoints, billing.Responses, "gpt-5.6", noMarks},
	{billing.Breakpoints, billing.Responses, "gpt-5.6", storedItems},
	{billing.Prefix, billing.Chat, "gpt-4o", noMarks},
	{billing.Prefix, billing.Responses, "gpt-4o", noMarks},
	{billing.Prefix, billing.Messages, "deepseek-chat", noMarks},
	{billing.CacheControl, billing.Messages, "claude-sonnet-5", noMarks},
	{billing.CacheControl, billing.Messages, "claude-sonnet-5", bothMarks},
	{billing.CacheControl, billing.Messages, "claude-sonnet-5", hourMark},
	{billing.CacheControl, billing.Messages, "claude-sonnet-5", autoMark},
	{billing.Implicit, billing.Chat, "gemini-2.5-flash", noMarks},
}

// asks are the questions of a conversation about this repository.
var asks = []string{
	"How do I show the sources beside the answer?", "What does the Sidenote-Status header say?", "Which errors come from Sidenote itself?", "Can a single request ask for less context?",
	"Where in the messages is the block placed?", "How are tokens counted for my model?", "How do I share a Redis between several replicas?", "How do I filter documents by audience?",
	"How do I back up the state folder before an upgrade?", "Which probes does Kubernetes need?", "What is the threat model for hostile documents?", "How do I configure several teams with their own keys?",
}

// A script is what is said in a conversation.
type script struct {
	system  string
	answers []string
}

// newScript returns a script with a system prompt and answers of that many tokens.
func newScript(c tokens.Counter, system, answer int) script {
	filler := func(kind string, i, n int) string {
		var b strings.Builder
		for line := 0; b.Len() < 8*n; line++ {
			fmt.Fprintf(&b, "%s %d, point %d: agree on it with the team first, then write down in a sentence what was agreed and why.\n", kind, i, line)
		}
		return tokens.Cut(c, b.String(), n)
	}
	s := script{system: filler("Instruction", 0, system)}
	for i := range asks {
		s.answers = append(s.answers, filler("Answer", i, answer))
	}
	return s
}

// request returns the request of a turn, counted from 0.
func (a *app) request(s script, turn int) []byte {
	textType := "text"
	if a.api == billing.Responses {
		textType = "input_text"
	}
	content := func(text, mark string) string {
		if mark == "" {
			return quoted(text)
		}
		return fmt.Sprintf(`[{"type":%q,"text":%s%s}]`, textType, quoted(text), mark)
	}
	system, newest, options := "", "", ""
	switch a.marks {
	case withTools:
		options = `,"tools":[{"type":"function","function":{"name":"clock"}}]`
	case systemMark:
		system = marked
	case bothMarks:
		if system, newest = marked, marked; a.rule == billing.CacheControl {
			system, newest = fiveMinutes, fiveMinutes
		}
	case hourMark:
		system, newest = oneHour, fiveMinutes
	case autoMark:
		options = fiveMinutes
	}
	var list []string
	for i := range turn + 1 {
		mark := ""
		if i == turn {
			mark = newest
		}
		list = append(list, `{"role":"user","content":`+content(asks[i], mark)+`}`)
		if i == turn {
			break
		}
		answer := quoted(s.answers[i])
		if a.api == billing.Responses {
			answer = `[{"type":"output_text","text":` + answer + `,"annotations":[]}]`
		}
		list = append(list, `{"role":"assistant","content":`+answer+`}`)
	}
	switch a.api {
	case billing.Messages:
		return fmt.Appendf(nil, `{"model":%q,"max_tokens":900%s,"system":%s,"messages":[%s]}`, a.model, options, content(s.system, system), strings.Join(list, ","))
	case billing.Responses:
		return fmt.Appendf(nil, `{"model":%q,"store":%v,"instructions":%s,"input":[%s]}`, a.model, a.marks == storedItems, quoted(s.system), strings.Join(list, ","))
	}
	return fmt.Appendf(nil, `{"model":%q%s,"messages":[{"role":"system","content":%s},%s]}`, a.model, options, content(s.system, system), strings.Join(list, ","))
}

// noSources is the arm without Sidenote.
const noSources rewrite.Placement = "none"

// billed returns the bill of a conversation under a placement; added is the size of the rules in all
// requests that hit.
func (a *app) billed(t *testing.T, side *sidecar, s script, to rewrite.Placement) (all billing.Totals, added int) {
	t.Helper()
	b := newBench(a.rule, a.api)
	for turn := range asks {
		body := a.request(s, turn)
		rules := 0
		if to != noSources {
			sent, ledger := side.rewritten(t, setting{to, rewrite.Inject}, a.api, body)
			if ledger.ChunksSelected == 0 {
				t.Fatalf("no sources for %q under %s: %+v", asks[turn], to, ledger)
			}
			body, rules = sent, ledger.Rules
		}
		if b.bill(t, string(body)).Read > 0 {
			added += rules
		}
		b.Time = b.Add(time.Minute)
	}
	return b.meter.Totals(), added
}

// Twelve turns under auto cost less than with sources in the system message, and never more; an app
// that marks its own blocks, or none, reads from the cache what it would without sources.
// Run with -v for the table.
func TestCostOfSources(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	side := newSidecar(t, 2000, readmes(t))
	systems, answers := []int{300, 1500, 5000}, []int{200, 1200}
	if testing.Short() {
		systems, answers = []int{300, 1500}, []int{1200}
	}
	t.Logf("12 turns; cost in thousands of uncached input tokens")
	t.Logf("%-10s %-9s %-16s %6s %6s | %7s %7s %7s %7s | %12s %11s %9s %6s", "rule", "API", "marks of the app", "system", "answer", "none", "system", "split", "auto", "split/system", "auto/system", "auto/none", "reads")
	for _, a := range apps {
		for _, system := range systems {
			for _, answer := range answers {
				a.compare(t, side, newScript(counter, system, answer), system, answer)
			}
		}
	}
}

func (a *app) compare(t *testing.T, side *sidecar, s script, system, answer int) {
	t.Helper()
	none, _ := a.billed(t, side, s, noSources)
	fixed, _ := a.billed(t, side, s, rewrite.PlaceSystem)
	split, _ := a.billed(t, side, s, rewrite.PlaceSplit)
	auto, rules := a.billed(t, side, s, rewrite.PlaceAuto)
	kept := 1.0
	if none.Read > 0 {
		kept = float64(auto.Read-rules) / float64(none.Read)
	}
	ratio := auto.Cost / fixed.Cost
	cell := fmt.Sprintf("%-10s %-9s %-16s %6d %6d", a.rule, a.api, a.marks, system, answer)
	t.Logf("%s | %7.1f %7.1f %7.1f %7.1f | %12.2f %11.2f %9.2f %6.2f", cell, none.Cost/1000, fixed.Cost/1000, split.Cost/1000, auto.Cost/1000,
		split.Cost/fixed.Cost, ratio, auto.Cost/none.Cost, kept)
	most := 1.02
	if system == 1500 && answer == 1200 && a.marks != storedItems {
		most = .80
		if a.rule == billing.Breakpoints || a.rule == billing.CacheControl {
			most = .45
		}
	}
	if ratio > most {
		t.Errorf("%s: auto costs %.3f of system, want at most %.2f", cell, ratio, most)
	}
	if a.marks != storedItems && kept < .98 {
		t.Errorf("%s: the app reads %.3f of what it did, without the rules", cell, kept)
	}
}
