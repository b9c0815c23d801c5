package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// byQuestion finds sources whose names are the words of the question that begin with d.
func byQuestion(_ context.Context, q retrieval.Query) (r retrieval.Result, err error) {
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(q.Text) {
		if word = strings.Trim(word, "?"); strings.HasPrefix(word, "d") && !seen[word] {
			seen[word] = true
			r.Sources = append(r.Sources, retrieval.Source{Type: "rag", Knowledge: "handbook", Doc: word, Name: word, Text: "All about " + word + ".\nIt is <b>long</b>."})
		}
	}
	r.Retrieved, r.Unique, r.Cache = len(r.Sources), len(r.Sources), retrieval.CacheMiss
	if len(r.Sources) == 0 {
		r.Reason = retrieval.ReasonNoMatch
	}
	return r, nil
}

// A dialogue sends growing conversations, and keeps the sources of their turns as the proxy does.
type dialogue struct {
	rw       rewrite.Rewriter
	policy   rewrite.Policy
	api      chat.API
	messages []string // JSON
	kept     map[chat.TurnDigest]*rewrite.EarlierSources
}

func newDialogue(placement rewrite.Placement, api chat.API, cache tokens.PromptCache) *dialogue {
	encoding, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		panic(err)
	}
	p := rewrite.DefaultPolicy()
	p.Tenant, p.Knowledge, p.Placement, p.Repeat = "acme", []string{"handbook"}, placement, rewrite.RepeatKeep
	return &dialogue{
		rw:     rewrite.Rewriter{Retriever: retrieval.Func(byQuestion), Models: models{model.Model{Row: "m", Encoding: "o200k_base", Counter: encoding, Window: 100_000, PromptCache: cache}}},
		policy: p, api: api, kept: map[chat.TurnDigest]*rewrite.EarlierSources{},
	}
}

// ask sends a question and returns the body for the upstream.
func (d *dialogue) ask(t interface{ Fatal(...any) }, question string) (sent []byte, res rewrite.Result) {
	text, _ := json.Marshal(question)
	d.messages = append(d.messages, fmt.Sprintf(`{"role":"user","content":%s}`, text))
	list, system := "messages", `{"role":"system","content":"You are HR."},`
	switch d.api {
	case chat.Responses:
		list = "input"
	case chat.Messages:
		system = ""
	}
	body := fmt.Sprintf(`{"model":"m","max_tokens":9,"store":false,"%s":[%s%s]}`, list, system, strings.Join(d.messages, ","))
	req, err := d.api.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	turns := chat.Turns(req)
	var o rewrite.Options
	for _, turn := range turns[1:] {
		o.EarlierSources = append(o.EarlierSources, d.kept[turn])
	}
	p := d.policy
	d.rw.Rewrite(context.Background(), &p, req, &o, &res)
	if res.Earlier != nil {
		stored, _ := json.Marshal(res.Earlier) // as in Redis
		e := new(rewrite.EarlierSources)
		if err := json.Unmarshal(stored, e); err != nil {
			t.Fatal(err)
		}
		d.kept[turns[0]] = e
	}
	sent = rewrite.ApplyEdits(nil, []byte(body), res.Edits)
	if _, err := d.api.Parse(sent); err != nil {
		t.Fatal(string(sent), err)
	}
	d.messages = append(d.messages, `{"role":"assistant","content":"Yes [1]."}`)
	return sent, res
}

func TestKeptSourcesStandWhereTheyStood(t *testing.T) {
	for _, cache := range []tokens.PromptCache{tokens.CacheNone, tokens.CachePrefix, tokens.CacheBreakpoints} {
		d := newDialogue(rewrite.PlaceAuto, chat.Completions, cache)
		if cache == tokens.CacheNone {
			d.policy.Placement = rewrite.PlaceLastUser
		}
		first, _ := d.ask(t, "What of d1 and d2?")
		d.policy.CacheMarks = rewrite.MarksAuto
		second, res := d.ask(t, "And d2 and d3?")
		end := bytes.LastIndex(first, []byte(`</sources>\n"`))
		begins := first[bytes.Index(first, []byte(`"messages"`)):end]
		if cache == tokens.CacheBreakpoints { // the mark has moved to the newest question
			begins = bytes.Replace(begins, []byte(`,"prompt_cache_breakpoint":{"mode":"explicit"}`), nil, 1)
		}
		if got := second[bytes.Index(second, []byte(`"messages"`)):]; !bytes.HasPrefix(got, begins) {
			t.Errorf("%s: the second turn\n%s\ndoes not begin as the first\n%s", cache, got, begins)
		}
		l := res.Ledger
		if l.Repeated == nil || l.Repeated.Tokens == 0 || len(l.Repeated.Sources) != 2 {
			t.Fatalf("%s: repeated %+v, want the two sources of the first turn", cache, l.Repeated)
		}
		var in []string
		for _, s := range l.Sources {
			if s.ID > 0 {
				in = append(in, fmt.Sprintf("%d %s", s.ID, s.Doc))
			}
		}
		if got := strings.Join(in, ", "); got != "3 d3" {
			t.Errorf("%s: new sources %q, want d3 alone, under the next id", cache, got)
		}
	}
}

func TestFollowUpWithoutSourcesGetsThoseOfBefore(t *testing.T) {
	for _, placement := range []rewrite.Placement{rewrite.PlaceLastUser, rewrite.PlaceSplit} {
		d := newDialogue(placement, chat.Messages, tokens.CacheNone)
		d.ask(t, "What of d1?")
		sent, res := d.ask(t, "Is that so?")
		if res.Outcome != rewrite.Injected || bytes.Count(sent, []byte("All about d1.")) != 1 {
			t.Errorf("%s: %s %s", placement, res.Outcome, sent)
		}
		if res.Earlier != nil {
			t.Errorf("%s: a turn without sources keeps %+v", placement, res.Earlier)
		}
	}
}

func TestSourcesAreFreshByDefault(t *testing.T) {
	d := newDialogue(rewrite.PlaceSplit, chat.Completions, tokens.CacheNone)
	d.policy.Repeat = rewrite.RepeatFresh
	d.ask(t, "What of d1?")
	if sent, res := d.ask(t, "And d2?"); bytes.Contains(sent, []byte("d1.\\n")) || res.Ledger.Repeated != nil {
		t.Errorf("%s", sent)
	}
}

func TestOldestKeptSourcesGiveWayInASmallWindow(t *testing.T) {
	d := newDialogue(rewrite.PlaceSplit, chat.Completions, tokens.CacheNone)
	d.policy.ContextTokens, d.policy.ReserveOutputTokens = 200, 10
	d.policy.Window, d.policy.CountWhole = 560, true
	for i := range 8 {
		sent, res := d.ask(t, fmt.Sprintf("What of d%d?", i))
		if w := res.Ledger.Window; w.Request+res.Ledger.Grown()+w.ReservedOutput > 560 {
			t.Fatalf("turn %d: the window is exceeded: %+v, grown %d", i, w, res.Ledger.Grown())
		}
		if i == 7 && (bytes.Contains(sent, []byte("All about d0.")) || !bytes.Contains(sent, []byte("All about d6."))) {
			t.Errorf("%s", sent)
		}
	}
}

// Each source is given once, ids are unique, and nothing but declared edits changes. In the debug
// build the tokens are counted anew.
func TestKeptSourcesInAnyConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDialogue(rapid.SampledFrom([]rewrite.Placement{rewrite.PlaceSplit, rewrite.PlaceLastUser, rewrite.PlaceAuto}).Draw(t, "placement"),
			rapid.SampledFrom([]chat.API{chat.Completions, chat.Responses, chat.Messages}).Draw(t, "api"),
			rapid.SampledFrom([]tokens.PromptCache{tokens.CachePrefix, tokens.CacheBreakpoints, tokens.CacheControl}).Draw(t, "cache"))
		d.policy.ContextTokens = rapid.IntRange(60, 400).Draw(t, "budget")
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			question := rapid.StringMatching(`(Und|And|那么)( d[1-6]| x){0,4}\?`).Draw(t, "question")
			if rapid.Bool().Draw(t, "forget") {
				clear(d.kept)
			}
			sent, res := d.ask(t, question)
			ids, docs := map[int]bool{}, map[string]bool{}
			all := res.Ledger.Sources
			if r := res.Ledger.Repeated; r != nil {
				all = append(all[:len(all):len(all)], r.Sources...)
			}
			for _, s := range all {
				if s.ID == 0 {
					continue
				}
				if ids[s.ID] || docs[s.Doc] {
					t.Fatalf("source %d %s twice in %s", s.ID, s.Doc, sent)
				}
				ids[s.ID], docs[s.Doc] = true, true
				if !bytes.Contains(sent, fmt.Appendf(nil, `<source id=\"%d\"`, s.ID)) {
					t.Fatalf("source %d is not in %s", s.ID, sent)
				}
			}
			if res.Ledger.Used > d.policy.ContextTokens {
				t.Fatalf("used %d of %d", res.Ledger.Used, d.policy.ContextTokens)
			}
		}
	})
}

// A window without room for what may be added to the question has none for sources of earlier turns.
func TestNothingIsRepeatedWithoutRoom(t *testing.T) {
	d := newDialogue(rewrite.PlaceSplit, chat.Completions, tokens.CacheNone)
	d.ask(t, "What of d1?")
	d.policy.ContextTokens, d.policy.ReserveOutputTokens, d.policy.Window, d.policy.CountWhole = 2000, 10, 50, true
	_, res := d.ask(t, "And d2?")
	if w := res.Ledger.Window; res.Ledger.Repeated != nil || w.Request+res.Ledger.Grown()+w.ReservedOutput > 50 {
		t.Errorf("%+v, grown %d", w, res.Ledger.Grown())
	}
}

// A rewrite that may add no sources, as in a retry or on the last rung of a budget, repeats none.
func TestNothingIsRepeatedWithoutSources(t *testing.T) {
	for name, change := range map[string]func(*rewrite.Policy){
		"no tokens":    func(p *rewrite.Policy) { p.ContextTokens = 0 },
		"no knowledge": func(p *rewrite.Policy) { p.Knowledge = nil },
		"a rung":       func(p *rewrite.Policy) { p.NoRepeat = true },
	} {
		d := newDialogue(rewrite.PlaceSplit, chat.Completions, tokens.CacheNone)
		d.ask(t, "What of d1?")
		change(&d.policy)
		if sent, res := d.ask(t, "And d2?"); bytes.Contains(sent, []byte("All about d1.")) || res.Ledger.Repeated != nil {
			t.Errorf("%s: %s", name, sent)
		}
	}
}

// Beside sources of earlier turns nothing says that there are none to cite.
func TestNoNoticeBesideKeptSources(t *testing.T) {
	for _, placement := range []rewrite.Placement{rewrite.PlaceLastUser, rewrite.PlaceSplit} {
		d := newDialogue(placement, chat.Completions, tokens.CacheNone)
		d.policy.OnEmpty = rewrite.EmptyNotice
		if sent, _ := d.ask(t, "Hello?"); !bytes.Contains(sent, []byte("Do not cite")) {
			t.Errorf("%s: no notice in %s", placement, sent)
		}
		d.ask(t, "What of d1?")
		if sent, _ := d.ask(t, "Is that so?"); !bytes.Contains(sent, []byte("All about d1.")) || bytes.Contains(sent, []byte("Do not cite")) {
			t.Errorf("%s: %s", placement, sent)
		}
	}
}

// Stages get the block alone, so what is in it was given to them.
func TestStagesGetTheirSourcesAgain(t *testing.T) {
	d := newDialogue(rewrite.PlaceLastUser, chat.Completions, tokens.CacheNone)
	d.policy.Mode = rewrite.Staged
	d.ask(t, "What of d1?")
	if _, res := d.ask(t, "And again, d1?"); !bytes.Contains(res.Block, []byte("All about d1.")) || res.Ledger.Repeated != nil {
		t.Errorf("%s", res.Block)
	}
}

// What stood beside the sources in a message may come from one request alone, and the turn of another
// conversation may have the same key.
func TestComponentsAreNotRepeated(t *testing.T) {
	for placement, keeps := range map[rewrite.Placement]bool{rewrite.PlaceLastUser: false, rewrite.PlaceSplit: true} {
		d := newDialogue(placement, chat.Completions, tokens.CacheNone)
		d.policy.Components = []rewrite.Component{{Name: "balance", Text: "It is 7 euros."}}
		d.ask(t, "What of d1?")
		d.policy.Components = nil
		sent, _ := d.ask(t, "Is that so?")
		if bytes.Contains(sent, []byte("7 euros")) || bytes.Contains(sent, []byte("All about d1.")) != keeps {
			t.Errorf("%s: %s", placement, sent)
		}
	}
}

func TestQueriesAreNotRepeated(t *testing.T) {
	d := newDialogue(rewrite.PlaceLastUser, chat.Completions, tokens.CacheNone)
	d.policy.Template = template("For {{QUERY}}:\n{{CONTEXT}}")
	d.ask(t, "What of d1?")
	if sent, res := d.ask(t, "Is that so?"); res.Ledger.Repeated != nil {
		t.Errorf("%s", sent)
	}
}

// The sources of each turn stand in the next request byte for byte, whatever the templates and formats.
// Some are not found again, as a store may fail: then no id stands for two sources.
func TestKeptSourcesAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDialogue("", rapid.SampledFrom([]chat.API{chat.Completions, chat.Responses, chat.Messages}).Draw(t, "api"),
			rapid.SampledFrom([]tokens.PromptCache{tokens.CachePrefix, tokens.CacheBreakpoints, tokens.CacheControl}).Draw(t, "cache"))
		drawn := policyGen().Draw(t, "policy")
		d.policy.Style, d.policy.Template = drawn.Style, drawn.Template
		d.policy.Repeat, d.policy.ContextTokens = rewrite.RepeatKeep, 3000
		d.policy.Placement = rapid.SampledFrom([]rewrite.Placement{rewrite.PlaceAuto, rewrite.PlaceLastUser, rewrite.PlaceSplit}).Draw(t, "placement")
		d.policy.CacheMarks = rapid.SampledFrom([]rewrite.CacheMarks{"", rewrite.MarksAuto, rewrite.MarksOff}).Draw(t, "marks")
		var was []string
		for turn := range 4 {
			d.rw.Retriever = answering(rapid.SliceOfN(sourceGen(), 1, 3).Draw(t, "sources"))
			stored, lost := maps.Clone(d.kept), false
			for key := range d.kept {
				if rapid.IntRange(0, 7).Draw(t, "lost") == 0 {
					delete(d.kept, key)
					lost = true
				}
			}
			sent, res := d.ask(t, textGen(6).Draw(t, "question")+fmt.Sprint("q", turn))
			for key, e := range d.kept {
				stored[key] = e
			}
			d.kept = stored
			now := userContents(t, sent)
			for i := range was {
				if !lost && was[i] != "" && was[i] != now[i] {
					t.Fatalf("message %d is %s, was %s", i, now[i], was[i])
				}
			}
			if res.Earlier == nil { // it had no sources
				now[turn] = ""
			}
			if was = now; lost {
				clear(was)
			}
			ids := map[int]bool{}
			all := res.Ledger.Sources
			if r := res.Ledger.Repeated; r != nil {
				all = append(r.Sources[:len(r.Sources):len(r.Sources)], all...)
			}
			for _, s := range all {
				if ids[s.ID] && s.ID > 0 {
					t.Fatalf("id %d stands for two sources in %s", s.ID, sent)
				}
				ids[s.ID] = true
			}
		}
	})
}

// userContents returns the contents of the user's messages without marks.
func userContents(t *rapid.T, body []byte) (contents []string) {
	var sent struct {
		Messages, Input []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	unmarked := strings.NewReplacer(`,"prompt_cache_breakpoint":{"mode":"explicit"}`, "", `,"cache_control":{"type":"ephemeral"}`, "")
	for _, m := range append(sent.Messages, sent.Input...) {
		if m.Role == "user" {
			contents = append(contents, unmarked.Replace(string(m.Content)))
		}
	}
	return contents
}

// In a long conversation the oldest sources are left out several turns at once, so that most turns
// begin as the one before.
func TestOldestSourcesAreLeftOutInSteps(t *testing.T) {
	d := newDialogue(rewrite.PlaceSplit, chat.Completions, tokens.CacheNone)
	d.policy.ContextTokens = 150
	var before []byte
	changed, most := 0, 0
	for i := range 40 {
		sent, res := d.ask(t, fmt.Sprintf("What of d%d?", i))
		if r := res.Ledger.Repeated; r != nil {
			if most = max(most, r.Tokens); r.Tokens > 4*150 {
				t.Fatalf("turn %d: %d tokens of earlier sources, at most 600", i, r.Tokens)
			}
		}
		if end := bytes.LastIndex(before, []byte(`</sources>`)); end > 0 && !bytes.HasPrefix(sent, before[:end]) {
			changed++
		}
		before = sent
	}
	if changed > 40/4 || most < 300 {
		t.Errorf("%d of 40 turns begin otherwise than the one before; at most %d tokens were repeated", changed, most)
	}
}
