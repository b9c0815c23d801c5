package rewrite_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// languages returns texts of several languages and of code by name, in lines.
func languages(tb testing.TB) map[string][]string {
	tb.Helper()
	files, err := filepath.Glob("testdata/languages/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatal("no texts", err)
	}
	texts := map[string][]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(f), ".txt")] = strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	random, blob := rand.New(rand.NewPCG(1, 2)), make([]byte, 3000)
	for i := range blob {
		blob[i] = byte(random.Uint32())
	}
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(blob)), 76) {
		texts["base64"] = append(texts["base64"], string(line)+"\n")
	}
	return texts
}

// spelling encodes a text in JSON as some client does.
type spelling func(text string) []byte

// plainJSON escapes only what JSON requires.
func plainJSON(text string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// htmlJSON also writes <, > and & as \u escapes, as Go's encoding/json does.
func htmlJSON(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return out
}

// asciiJSON also escapes all non-ASCII characters, as Python's json.dumps does.
func asciiJSON(text string) []byte {
	var out []byte
	for _, r := range string(plainJSON(text)) {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// conversation returns a chat request of about n bytes: short questions and longer
// answers of the given lines, each message with a number of its own of eight digits.
func conversation(n int, lines []string, write spelling) []byte {
	b := []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"You are the HR assistant of a small company.\nAnswer briefly."}`)
	for i, line := 0, 0; len(b) < n-200; i++ {
		role, text := "user", ""
		if i%2 == 1 {
			role = "assistant"
		}
		for most := []int{100, 1500}[i%2]; len(text) < most; line++ {
			text += lines[line%len(lines)]
		}
		b = fmt.Appendf(b, `,{"role":%q,"content":%s}`, role, write(fmt.Sprintf("Turn %08d. %s", i, text)))
	}
	return append(b, `,{"role":"user","content":"How many weeks of parental leave do I get?"}],"temperature":0.2}`...)
}

// renew changes every message of a conversation into a new one.
func renew(body []byte, n int) {
	for at, part := 0, []byte("Turn "); ; n++ {
		next := bytes.Index(body[at:], part)
		if next < 0 {
			return
		}
		at += next + len(part)
		copy(body[at:], fmt.Sprintf("%08d", n))
	}
}

// paste returns a chat request of about n bytes, nearly all of them one user message.
func paste(n int, lines []string, write spelling) []byte {
	var text strings.Builder
	for i := 0; n > 200; i++ {
		line := lines[i%len(lines)]
		text.WriteString(line)
		n -= len(write(line)) - len(`""`)
	}
	return fmt.Appendf(nil, `{"model":"gpt-4o","messages":[{"role":"user","content":%s}],"temperature":0.2}`, write("Turn 00000000. "+text.String()))
}

// sourcesOf returns six chunks of about 1,000 bytes of the given lines.
func sourcesOf(lines []string) []retrieval.Source {
	sources := sixSources()
	for i := range sources {
		text := fmt.Sprintf("Chapter %d: ", i)
		for n := i; len(text) < 1000; n++ {
			text += lines[n*(i+3)%len(lines)]
		}
		sources[i].Text = text
	}
	return sources
}

// rewriting returns a function that rewrites a body.
func rewriting(b *testing.B, sources []retrieval.Source) (once func(body []byte)) {
	rw := &rewrite.Rewriter{
		Retriever: answering(sources),
		Models:    models{model.Model{Row: "gpt-4o*", Encoding: "o200k_base", Window: 128_000, Counter: encoding(b, "o200k_base")}},
	}
	p := rewrite.DefaultPolicy()
	p.Knowledge, p.Digest = []string{"handbook"}, "of this policy"
	var parser chat.Parser
	var out []byte
	return func(body []byte) {
		req, err := parser.Parse(chat.Completions, body)
		if err != nil {
			b.Fatal(err)
		}
		res := rw.Rewritten(b.Context(), p, req, rewrite.Options{})
		if res.Outcome == rewrite.Refused {
			b.Fatalf("%s %s", res.Outcome, res.Reason)
		}
		out = rewrite.ApplyEdits(out[:0], body, res.Edits)
	}
}

// BenchmarkLanguages rewrites requests of 200 KB and reports how many times as long that takes as
// for English messages: a conversation seen before (warm), the same with sources of the same
// texts (sources), a new conversation (cold), and one long message seen before (paste).
func BenchmarkLanguages(b *testing.B) {
	const size = 200_000
	texts := languages(b)
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, w := range []struct {
		name  string
		write spelling
	}{{"plain", plainJSON}, {"html", htmlJSON}, {"ascii", asciiJSON}} {
		for _, name := range names {
			text := strings.Join(texts[name], "")
			if w.name != "plain" && bytes.Equal(w.write(text), plainJSON(text)) {
				continue
			}
			measure := func(kind string, sources func(lines []string) []retrieval.Source, of func(int, []string, spelling) []byte) {
				b.Run(kind+"/"+w.name+"/"+name, func(b *testing.B) {
					once, other := rewriting(b, sources(texts[name])), rewriting(b, sources(texts["english"]))
					body, english := of(size, texts[name], w.write), of(size, texts["english"], plainJSON)
					once(body)
					b.SetBytes(int64(len(body)))
					for b.Loop() {
						once(body)
					}
					b.StopTimer()
					b.ReportMetric(fastest(10, 8, func() { once(body) }, func() { other(english) }), "×english")
				})
			}
			same := func([]string) []retrieval.Source { return sixSources() }
			measure("warm", same, conversation)
			measure("sources", sourcesOf, conversation)
			measure("paste", same, paste)
			b.Run("cold/"+w.name+"/"+name, func(b *testing.B) {
				once, n := rewriting(b, sixSources()), 0
				body, english := conversation(size, texts[name], w.write), conversation(size, texts["english"], plainJSON)
				again := func(body []byte) {
					n += 10_000
					renew(body, n)
					once(body)
				}
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					again(body)
				}
				b.StopTimer()
				b.ReportMetric(fastest(10, 1, func() { again(body) }, func() { again(english) }), "×english")
			})
		}
	}
}

// fastest returns how many times as long one takes as other. They run alternately, in random
// order, and the best times count, because the machine may have other work.
func fastest(rounds, times int, one, other func()) float64 {
	least := [2]time.Duration{1 << 62, 1 << 62}
	for range rounds {
		for _, which := range rand.Perm(2) {
			start := time.Now()
			for range times {
				[2]func(){one, other}[which]()
			}
			least[which] = min(least[which], time.Since(start))
		}
	}
	return float64(least[0]) / float64(least[1])
}
