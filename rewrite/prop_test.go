package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pkoukk/tiktoken-go"
	tiktoken_loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tags/tagstest"
	"sidenote/rewrite/tokens"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		checks := "10000"
		if testing.Short() {
			checks = "2500" // of which rapid runs a fifth
		}
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// hostile are parts of texts: what tokenizers merge across seams, what scanners take for tags,
// what templates and regexps expand.
var hostile = []string{
	"a", "The parents'll", " word", "Wörter", "über ", "12", "3456", ".", ".\n", "\n", "\n\n", "\r\n", " ", "   ", "\t", "/", "//", "/* c */",
	"'s", "’s", "!?", "…", "。", "文字", "漢", "한국", "🙂", "👩\u200d👩", "e\u0301", "\u0301", "<", ">", "&", "</source>", "<source id=\"1\">", "<SOURCES>", "</ sources >",
	"<\u200bsource", "＜source＞", "&lt;/source&gt;", "<component name=\"x\">", "</component>", "{{QUERY}}", "{{CONTEXT}}", "{{sidenote}}", "$1", "%s", "\"", "\\", "\\n",
	"<div>", "Map<String,Int>", "a && b", "\u0000", "\u007f", "\u202e", "\u2028", "\U000e0041", "<|endoftext|>", "=====", "-----", "[1]", "\n[2] ", "［ 3］", "```go\nfunc main() {}\n```\n", "| a | b |\n",
}

func textGen(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, most).Draw(t, "pieces"), "")
	})
}

func sourceGen() *rapid.Generator[retrieval.Source] {
	return rapid.Custom(func(t *rapid.T) retrieval.Source {
		return retrieval.Source{
			Type: "rag", Knowledge: rapid.SampledFrom([]string{"handbook", "product"}).Draw(t, "kb"),
			Doc: rapid.SampledFrom([]string{"a.md", "b/c.md", "\"><source id=\"7\">", "d\ne"}).Draw(t, "doc"), Chunk: rapid.IntRange(0, 3).Draw(t, "chunk"),
			Name: textGen(4).Draw(t, "name"), Section: textGen(3).Draw(t, "section"), Text: strings.Repeat(textGen(12).Draw(t, "text"), rapid.SampledFrom([]int{1, 1, 8}).Draw(t, "times")),
			Before: textGen(8).Draw(t, "before"), After: textGen(8).Draw(t, "after"), Score: rapid.Float64Range(0, 20).Draw(t, "score"),
		}
	})
}

// bodyGen draws chat requests with every form of content, and odd but valid JSON around it.
func bodyGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
		str := func(s string) string {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "ascii") {
				return strconv.QuoteToASCII(strings.ToValidUTF8("plain text\nline", ""))
			}
			return string(b)
		}
		content := func() string {
			switch rapid.IntRange(0, 5).Draw(t, "form") {
			case 0:
				return `,"content":` + space() + "null"
			case 1:
				return ""
			case 2:
				parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
					if rapid.IntRange(0, 3).Draw(t, "image") == 0 {
						return `{"type":"image_url","image_url":{"url":"x"}}`
					}
					return `{"text":` + str(textGen(6).Draw(t, "part")) + `,"type":"text"}`
				}), 0, 3).Draw(t, "parts")
				return `,"content":[` + strings.Join(parts, ","+space()) + space() + "]"
			default:
				return `,"content":` + space() + str(textGen(12).Draw(t, "content"))
			}
		}
		var messages []string
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			role := rapid.SampledFrom([]string{"system", "developer", "user", "user", "assistant"}).Draw(t, "role")
			messages = append(messages, `{`+space()+`"role":"`+role+`"`+content()+space()+`}`)
		}
		members := []string{`"messages":` + space() + `[` + space() + strings.Join(messages, ","+space()) + `]`}
		for _, extra := range []string{`"model":"gpt-4o"`, `"x":[1.0,1e-7,{"a":null}]`, `"sidenote":{"query":"leave"}`, `"stream":true`, `"seed":12345678901234567890`} {
			if rapid.Bool().Draw(t, "extra") {
				members = append(members, extra)
			}
		}
		members = rapid.Permutation(members).Draw(t, "order")
		return "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space()
	})
}

func policyGen() *rapid.Generator[rewrite.Policy] {
	return rapid.Custom(func(t *rapid.T) rewrite.Policy {
		p := rewrite.DefaultPolicy()
		p.Tenant, p.Knowledge = "acme", []string{"handbook", "product"}
		p.Placement = rapid.SampledFrom([]rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker}).Draw(t, "placement")
		p.ContextTokens = rapid.SampledFrom([]int{0, 10, 80, 120, 200, 400, 2000, 9000}).Draw(t, "budget")
		p.MinTruncatedTokens = rapid.SampledFrom([]int{1, 10, 100}).Draw(t, "least")
		p.Template = template(rapid.SampledFrom([]string{"", "", "{{CONTEXT}}", "Asked: {{QUERY}}\n\n{{CONTEXT}}\n/end", "pre {{CONTEXT}}post", "\n{{CONTEXT}}{{QUERY}}"}).Draw(t, "template"))
		p.Grounding = rapid.SampledFrom([]rewrite.Grounding{rewrite.GroundingDefault, rewrite.GroundingStrict}).Draw(t, "grounding")
		p.SourceOrder = rapid.SampledFrom([]rewrite.SourceOrder{rewrite.SourcesByRelevance, rewrite.SourcesAtEdges, rewrite.SourcesByDocument}).Draw(t, "source order")
		p.Neighbours = rapid.SampledFrom([]rewrite.Neighbours{rewrite.NeighboursAdjacent, rewrite.NeighboursSection, rewrite.NeighboursOff}).Draw(t, "neighbours")
		p.Order = rapid.SampledFrom([]rewrite.Order{rewrite.OrderPriority, rewrite.OrderDeclared, rewrite.OrderEdges}).Draw(t, "order")
		p.Escape = rapid.SampledFrom([]rewrite.Escape{rewrite.EscapeTags, rewrite.EscapeAll}).Draw(t, "escape")
		p.ComponentsFormat = rapid.SampledFrom([]rewrite.ComponentsFormat{rewrite.ComponentsTags, rewrite.ComponentsHeadings}).Draw(t, "components format")
		p.SourcesFormat = rapid.SampledFrom([]rewrite.SourcesFormat{rewrite.SourcesTags, rewrite.SourcesTags, rewrite.SourcesPlain}).Draw(t, "sources format")
		for i := range rapid.IntRange(0, 2).Draw(t, "components") {
			p.Components = append(p.Components, rewrite.Component{
				Name: fmt.Sprintf("c%d", i), Text: "x" + textGen(20).Draw(t, "component"),
				Priority: rapid.IntRange(0, 100).Draw(t, "priority"), Truncatable: rapid.Bool().Draw(t, "truncatable"),
			})
		}
		return p
	})
}

func encoding(t testing.TB, name string) *tokens.Encoding {
	t.Helper()
	e, err := set.Encoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var set = tokens.New()

// A rewrite stays within the budget according to a reference count of the whole message, keeps
// the bytes outside its edits, and its block can be parsed back.
func TestRewriteHolds(t *testing.T) {
	tiktoken.SetBpeLoader(tiktoken_loader.NewOfflineLoader())
	names := []string{"o200k_base", "cl100k_base"}
	oracles := map[string]*tiktoken.Tiktoken{}
	for _, name := range names {
		var err error
		if oracles[name], err = tiktoken.GetEncoding(name); err != nil {
			t.Fatal(err)
		}
	}
	encodings := map[string]*tokens.Encoding{names[0]: encoding(t, names[0]), names[1]: encoding(t, names[1])}
	tally := map[rewrite.Outcome]int{}
	cut, limited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "encoding")
		oracle, counter := oracles[name], encodings[name]
		body := []byte(bodyGen().Draw(t, "body"))
		policy := policyGen().Draw(t, "policy")
		sources := rapid.SliceOfN(sourceGen(), 0, 4).Draw(t, "sources")
		policy.ReserveOutputTokens = rapid.SampledFrom([]int{0, 1, 40}).Draw(t, "reserve")
		rw := rewrite.OneOfMany(&rewrite.Rewriter{
			Retriever: answering(sources),
			Models: models{model.Model{
				Row: "test", Encoding: name, Counter: counter, NoSystem: rapid.IntRange(0, 3).Draw(t, "no system") == 0, Window: rapid.SampledFrom([]int{0, 0, 0, 250, 400, 600, 1000, 5000}).Draw(t, "window"),
			}},
		})
		req, err := chat.Completions.Parse(body)
		if err != nil {
			t.Fatalf("Parse(%s): %v", body, err)
		}
		options, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(body)
		if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			remembers(t, rw, policy, req, options, []byte(bodyGen().Draw(t, "other body")))
		}
		res := rw.Rewritten(t.Context(), policy, req, options)
		tally[res.Outcome]++
		if slices.ContainsFunc(res.Ledger.Sources, func(s rewrite.SourceEntry) bool { return s.Inclusion == rewrite.Cut }) {
			cut++
		}
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed in place")
		}
		out := rewrite.ApplyEdits(nil, body, res.Edits)
		pieces := rewrite.EditPieces(nil, body, res.Edits)
		if !bytes.Equal(bytes.Join(pieces, nil), out) || slices.ContainsFunc(pieces, func(p []byte) bool { return len(p) == 0 }) {
			t.Fatalf("Apply made %q, Pieces %q", out, pieces)
		}
		editsAreSound(t, body, res.Edits)
		added := grown(t, oracle, body, out)
		staysInWindow(t, oracle, body, out, res)
		if res.Ledger.Window.Limits {
			limited++
		}
		if res.Outcome != rewrite.Injected && res.Ledger.Used != 0 {
			t.Fatalf("%s, yet %d tokens used", res.Outcome, res.Ledger.Used)
		}
		if l := res.Ledger; l.Rules+l.Tags+l.Text != l.Used || l.Tags < 0 || l.Text < 0 {
			t.Fatalf("used %d = rules %d + tags %d + text %d\nbody %s", l.Used, l.Rules, l.Tags, l.Text, body)
		}
		for _, e := range res.Ledger.Sources {
			reasoned(t, e.Inclusion, e.Reason, e.Detail)
		}
		for _, e := range res.Ledger.Components {
			reasoned(t, e.Inclusion, e.Reason, e.Detail)
		}
		if res.Outcome != rewrite.Injected {
			return
		}
		if added > policy.ContextTokens {
			t.Fatalf("%d tokens added, budget %d\nbody %s\nout  %s", added, policy.ContextTokens, body, out)
		}
		if res.Ledger.Exactness == rewrite.Exact && policy.Placement != rewrite.PlaceMarker && added != res.Ledger.Used {
			t.Fatalf("oracle counts %d tokens added, ledger %d\nbody %s\nout  %s", added, res.Ledger.Used, body, out)
		}
		parsesBack(t, policy, res, out)
	})
	t.Logf("outcomes %v, %d with a source cut inside, %d limited by the window", tally, cut, limited)
	if tally[rewrite.Injected] == 0 || tally[rewrite.Untouched] == 0 || cut == 0 && !testing.Short() || limited == 0 {
		t.Fatalf("the cases miss what they are about: %v, %d cut, %d limited", tally, cut, limited)
	}
}

// reasoned fails unless a reason and a detail are set exactly for what is cut or left out.
func reasoned(t *rapid.T, fate rewrite.Inclusion, reason retrieval.ExcludeReason, detail string) {
	if whole := fate == rewrite.Included; whole != (reason == "") || whole != (detail == "") {
		t.Fatalf("%s, reason %q, detail %q", fate, reason, detail)
	}
}

// staysInWindow counts whole requests: if something was added, the request fits into the window
// together with the answer, and the ledger's numbers for the request are right.
func staysInWindow(t *rapid.T, oracle *tiktoken.Tiktoken, body, out []byte, res rewrite.Result) {
	w := res.Ledger.Window
	if n := total(t, oracle, out) + w.ReservedOutput; res.Outcome == rewrite.Injected && w.Size > 0 && n > w.Size {
		t.Fatalf("%d tokens in a window of %d: %+v\nbody %s\nout  %s", n, w.Size, w, body, out)
	}
	n := total(t, oracle, body)
	switch {
	case w.Check == model.CheckCount && w.Request-w.Reserve != n, w.Check == model.CheckBound && w.Request < n:
		t.Fatalf("oracle counts %d tokens, ledger %+v of %s", n, w, body)
	}
}

// total returns the count of a whole request.
func total(t *rapid.T, oracle *tiktoken.Tiktoken, body []byte) int {
	texts, c := read(t, body)
	n := 3
	for i, text := range texts {
		n += 4 + len(oracle.EncodeOrdinary(text))
		var parts []struct{ Type string }
		if json.Unmarshal(c.Messages[i].Content, &parts) == nil {
			for _, p := range parts {
				if p.Type != "text" {
					n += tokens.ImageRule{}.Tokens(0, 0, "")
				}
			}
		}
	}
	return n
}

// remembers checks that a cached rewrite equals a new one, whatever was rewritten in between.
func remembers(t *rapid.T, rw *rewrite.Rewriter, p rewrite.Policy, req *chat.Request, o rewrite.Options, otherBody []byte) {
	other, err := chat.Completions.Parse(otherBody)
	if err != nil {
		t.Fatal(err)
	}
	anew := func(r *chat.Request) rewrite.Result {
		p := p
		p.Digest = ""
		return rw.Rewritten(t.Context(), p, r, o)
	}
	p.Digest = "some policy"
	for _, r := range []*chat.Request{req, other, req, other} {
		got, want := rw.Rewritten(t.Context(), p, r, o), anew(r)
		if diff := differs(want.Edits, got.Edits); diff != "" {
			t.Fatalf("remembered edits differ (-anew +remembered):\n%s", diff)
		}
		if diff := differs(want.Ledger, got.Ledger, cmpopts.EquateEmpty()); diff != "" || want.Outcome != got.Outcome || want.Reason != got.Reason {
			t.Fatalf("remembered ledger differs (-anew +remembered):\n%s", diff)
		}
	}
}

// differs returns the difference of two values. It is fast if they are equal, for which cmp takes
// far longer.
func differs(want, got any, options ...cmp.Option) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, options...)
}

func answering(sources []retrieval.Source) retrieval.Func {
	r := retrieval.Result{Sources: sources, Retrieved: len(sources), Unique: len(sources)}
	if len(sources) == 0 {
		r.Reason = retrieval.ReasonNoMatch
	}
	return func(context.Context, retrieval.Query) (retrieval.Result, error) { return r, nil }
}

func editsAreSound(t *rapid.T, body []byte, edits []rewrite.Edit) {
	at := 0
	for _, e := range edits {
		if e.Offset < at || e.Offset+e.Delete > len(body) {
			t.Fatalf("edits overlap or leave the body: %+v", edits)
		}
		at = e.Offset + e.Delete
		if gone := string(body[e.Offset:at]); gone != "" && gone != "null" && gone != `{{sidenote}}` && !strings.Contains(gone, `"sidenote"`) {
			t.Fatalf("edit %s deletes %q", e.Name, gone)
		}
	}
}

type chatRequest struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Sidenote json.RawMessage
}

func read(t *rapid.T, body []byte) (texts []string, c chatRequest) {
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, m := range c.Messages {
		var text string
		var parts []struct{ Type, Text string }
		if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &parts) == nil {
			for _, p := range parts {
				text += p.Text
			}
		}
		texts = append(texts, text)
	}
	return texts, c
}

// grown returns by how many tokens the messages grew, by counting whole messages.
func grown(t *rapid.T, oracle *tiktoken.Tiktoken, body, out []byte) int {
	count := func(s string) int { return len(oracle.EncodeOrdinary(s)) }
	was, _ := read(t, body)
	is, c := read(t, out)
	if c.Sidenote != nil {
		t.Fatalf("the body field was not stripped: %s", out)
	}
	n := 0
	if len(is) > len(was) {
		n += 4
		was = append([]string{""}, was...)
	}
	for i := range is {
		if is[i] != was[i] {
			n += count(is[i]) - count(was[i])
		}
	}
	return n
}

// plainParsesBack checks that the lines that begin numbered sources in the inserted text have the
// ids of the ledger, in order.
func plainParsesBack(t *rapid.T, p rewrite.Policy, res rewrite.Result) {
	want, got := []string{}, []string{}
	for _, s := range res.Ledger.Sources {
		if s.Inclusion != rewrite.Excluded {
			want = append(want, strconv.Itoa(s.ID))
		}
	}
	for _, e := range res.Edits {
		text := strings.NewReplacer(`\\`, "-", `\"`, "-").Replace(string(e.Insert.Append(nil))) // of escapes only line feeds matter
		for _, line := range regexp.MustCompile(`(?:\\n|"|^)\s*\[\s*([0-9]+)\s*\]`).FindAllStringSubmatch(text, -1) {
			got = append(got, line[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("numbered %v, want %v", got, want)
	}
}

// parsesBack parses the one <sources> element strictly: it must have the ids of the ledger, in
// order, and nothing else in the inserted text may look like one of Sidenote's tags.
func parsesBack(t *rapid.T, p rewrite.Policy, res rewrite.Result, out []byte) {
	if p.SourcesFormat == rewrite.SourcesPlain {
		plainParsesBack(t, p, res)
		return
	}
	var inserted string
	for _, e := range res.Edits {
		if bytes.Contains(e.Insert.Append(nil), []byte("<sources>")) {
			inserted = string(e.Insert.Append(nil))
		}
	}
	want := []string{}
	for _, s := range res.Ledger.Sources {
		if s.Inclusion != rewrite.Excluded {
			want = append(want, strconv.Itoa(s.ID))
		}
	}
	if inserted == "" {
		if len(want) > 0 {
			t.Fatalf("sources %v in the ledger, none in the request: %s", want, out)
		}
		return
	}
	texts, _ := read(t, out)
	for _, text := range texts {
		at := strings.LastIndex(text, "<sources>\n")
		end := strings.LastIndex(text, "</sources>\n")
		if at < 0 || end < at {
			continue
		}
		parsed, err := tagstest.ParseSources(text[at : end+len("</sources>\n")])
		if err != nil {
			continue // an element in the application's own text
		}
		got := []string{}
		for _, s := range parsed {
			got = append(got, strconv.Itoa(s.ID))
			if n := new(tags.Vocabulary).Count(s.Body); n > 0 {
				t.Fatalf("source %d still holds %d texts that look like tags: %q", s.ID, n, s.Body)
			}
		}
		if slices.Equal(got, want) {
			return
		}
		t.Fatalf("parsed back %v, want %v: %s", got, want, text)
	}
	t.Fatalf("no <sources> element parses back (want %v): %s", want, out)
}
