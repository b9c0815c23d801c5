package billing_test

import (
	"fmt"
	"strings"
	"sync"
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

// A size is the number of tokens of a system prompt and of each answer.
type size struct{ system, answer int }

// A script is what is said in a conversation.
type script struct {
	size    size
	system  string
	answers []string
}

// newScript returns a script of that size.
func newScript(c tokens.Counter, n size) script {
	filler := func(kind string, i, n int) string {
		var b strings.Builder
		for line := 0; b.Len() < 8*n; line++ {
			fmt.Fprintf(&b, "%s %d, point %d: agree on it with the team first, then write down in a sentence what was agreed and why.\n", kind, i, line)
		}
		return tokens.Cut(c, b.String(), n)
	}
	s := script{size: n, system: filler("Instruction", 0, n.system)}
	for i := range asks {
		s.answers = append(s.answers, filler("Answer", i, n.answer))
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

// A turn is what a request of a conversation costs, and what was added to it.
type turn struct {
	usage     billing.Usage
	placement string // with the mark of the prompt cache
	used      int    // tokens
	rules     int    // of these
}

// conversations has the turns of conversations, by conversation: the tests below look at the same ones.
var conversations sync.Map

// A conversation is what an app says under a placement.
type conversation struct {
	app  app
	size size
	to   rewrite.Placement
}

// turns returns the turns of a conversation under a placement, a minute apart.
func (a *app) turns(t *testing.T, side func() *sidecar, s script, to rewrite.Placement) (all []turn) {
	t.Helper()
	key := conversation{*a, s.size, to}
	if had, ok := conversations.Load(key); ok {
		return had.([]turn)
	}
	b := newBench(a.rule, a.api)
	for i := range asks {
		var next turn
		body := a.request(s, i)
		if to != noSources {
			sent, ledger := side().rewritten(t, setting{to, rewrite.Inject}, a.api, body)
			if ledger.ChunksSelected == 0 {
				t.Fatalf("no sources for %q under %s: %+v", asks[i], to, ledger)
			}
			body, next.placement, next.used, next.rules = sent, fmt.Sprint(ledger.Placement, ledger.CacheMark), ledger.Used, ledger.Rules
		}
		next.usage = b.bill(t, string(body))
		all = append(all, next)
		b.Time = b.Add(time.Minute)
	}
	conversations.Store(key, all)
	return all
}

// billed returns the bill of a conversation under a placement: its cost, and what it read; added is
// the size of the rules in all requests that hit.
func (a *app) billed(t *testing.T, side func() *sidecar, s script, to rewrite.Placement) (cost float64, read, added int) {
	t.Helper()
	for _, turn := range a.turns(t, side, s, to) {
		cost += turn.usage.Cost
		if read += turn.usage.Read; turn.usage.Read > 0 {
			added += turn.rules
		}
	}
	return cost, read, added
}

// Twelve turns under auto cost less than with sources in the system message, and never more; an app
// that marks its own blocks, or none, reads from the cache what it would without sources.
// Run with -v for the table.
func TestCostOfSources(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	side := sync.OnceValue(func() *sidecar { return newSidecar(t, 2000, readmes(t)) })
	sizes := guardedSizes
	if !testing.Short() {
		sizes = []size{{300, 200}, {300, 1200}, {1500, 200}, {1500, 1200}, {5000, 200}, {5000, 1200}}
	}
	t.Logf("12 turns; cost in thousands of uncached input tokens")
	t.Logf("%-10s %-9s %-16s %6s %6s | %7s %7s %7s %7s | %12s %11s %9s %6s", "rule", "API", "marks of the app", "system", "answer", "none", "system", "split", "auto", "split/system", "auto/system", "auto/none", "reads")
	for _, n := range sizes {
		s := newScript(counter, n)
		for _, a := range apps {
			a.compare(t, side, s)
		}
	}
}

func (a *app) compare(t *testing.T, side func() *sidecar, s script) {
	t.Helper()
	none, read, _ := a.billed(t, side, s, noSources)
	fixed, _, _ := a.billed(t, side, s, rewrite.PlaceSystem)
	split, _, _ := a.billed(t, side, s, rewrite.PlaceSplit)
	auto, readAuto, rules := a.billed(t, side, s, rewrite.PlaceAuto)
	kept := 1.0
	if read > 0 {
		kept = float64(readAuto-rules) / float64(read)
	}
	ratio := auto / fixed
	cell := fmt.Sprintf("%-10s %-9s %-16s %6d %6d", a.rule, a.api, a.marks, s.size.system, s.size.answer)
	t.Logf("%s | %7.1f %7.1f %7.1f %7.1f | %12.2f %11.2f %9.2f %6.2f", cell, none/1000, fixed/1000, split/1000, auto/1000,
		split/fixed, ratio, auto/none, kept)
	most := 1.02
	if s.size == (size{1500, 1200}) && a.marks != storedItems {
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
