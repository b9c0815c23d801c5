package rewrite_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// chatOf returns a chat request of about n bytes: a system prompt, short questions with longer
// answers, and a last question.
func chatOf(n int) []byte {
	const line = `The quick brown fox jumps over the lazy dog, and says \"so what\" to the passing crowd.\n`
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o","messages":[{"role":"system","content":"You are the HR assistant of a small company.\nAnswer briefly."}`)
	for i := 0; b.Len() < n-200; i++ {
		role, lines := "user", 1
		if i%2 == 1 {
			role, lines = "assistant", min(16, (n-b.Len())/len(line)-1)
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":"Turn %d. %s"}`, role, i, strings.Repeat(line, max(lines, 1)))
	}
	b.WriteString(`,{"role":"user","content":"How many weeks of parental leave do I get?"}],"temperature":0.2}`)
	return []byte(b.String())
}

// sixSources returns six chunks of about 1,000 bytes.
func sixSources() []retrieval.Source {
	var sources []retrieval.Source
	for i := range 6 {
		sources = append(sources, retrieval.Source{
			Type: "rag", Knowledge: "handbook", Doc: fmt.Sprintf("policies/leave-%d.md", i), Chunk: i, Name: "Leave policy", Section: "Parental leave", Score: 9,
			Text: strings.Repeat(fmt.Sprintf("Every parent may take %d weeks of leave after six months of service. ", i+10), 14),
		})
	}
	return sources
}

// asResponses returns a chat as a request of the Responses API.
func asResponses(body []byte) []byte {
	return bytes.Replace(bytes.Replace(body, []byte(`"messages":[{"role":"system","content":`), []byte(`"instructions":`), 1), []byte(`"},`), []byte(`","input":[`), 1)
}

// asMessages returns a chat as a request of the Messages API.
func asMessages(body []byte) []byte {
	return bytes.Replace(bytes.Replace(body, []byte(`"messages":[{"role":"system","content":`), []byte(`"max_tokens":1024,"system":`), 1), []byte(`"},`), []byte(`","messages":[`), 1)
}

// BenchmarkRewrite is the rewrite alone: it parses, fits and edits into a reused buffer; the
// retriever's results and the token counts are in memory.
func BenchmarkRewrite(b *testing.B) {
	for _, kb := range []int{1, 20, 200} {
		benchmarkRewrite(b, fmt.Sprintf("%dKB", kb), chat.Completions, chatOf(kb<<10))
		benchmarkRewrite(b, fmt.Sprintf("%dKB/responses", kb), chat.Responses, asResponses(chatOf(kb<<10)))
		benchmarkRewrite(b, fmt.Sprintf("%dKB/messages", kb), chat.Messages, asMessages(chatOf(kb<<10)))
	}
}

func benchmarkRewrite(b *testing.B, name string, api chat.API, body []byte) {
	b.Run(name, func(b *testing.B) {
		rw := &rewrite.Rewriter{
			Retriever: answering(sixSources()),
			Models:    models{model.Model{Row: "gpt-4o*", Encoding: "o200k_base", Window: 128000, Counter: encoding(b, "o200k_base")}},
		}
		p := rewrite.DefaultPolicy()
		p.Knowledge, p.Digest = []string{"handbook"}, "of this policy"
		var out []byte
		var res rewrite.Result
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			req, err := api.Parse(body)
			if err != nil {
				b.Fatal(err)
			}
			rw.Rewrite(b.Context(), &p, req, &rewrite.Options{}, &res)
			if res.Outcome != rewrite.Injected || len(res.Ledger.Sources) != 6 {
				b.Fatalf("%s %s", res.Outcome, res.Reason)
			}
			out = rewrite.ApplyEdits(out[:0], body, res.Edits)
		}
	})
}

// BenchmarkParse is one pass over the body, the minimum time of a rewrite.
func BenchmarkParse(b *testing.B) {
	for _, kb := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("%dKB", kb), func(b *testing.B) {
			body := chatOf(kb << 10)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := chat.Completions.Parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewQuestion rewrites questions never asked before, whose sources were recently found
// for others.
func BenchmarkNewQuestion(b *testing.B) {
	e, sources := encoding(b, "o200k_base"), []retrieval.Source(nil)
	rw := &rewrite.Rewriter{
		Retriever: retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
			return retrieval.Result{Sources: sources, Retrieved: 50, Unique: 40, Cache: retrieval.CacheMiss}, nil
		}),
		Models: models{model.Model{Row: "gpt-4o*", Encoding: "o200k_base", Window: 128000, Counter: e}},
	}
	p := rewrite.DefaultPolicy()
	p.Knowledge, p.Digest = []string{"handbook"}, "of this policy"
	req, err := chat.Completions.Parse(chatOf(1 << 10))
	if err != nil {
		b.Fatal(err)
	}
	sources = sixSources()
	b.ReportAllocs()
	for b.Loop() {
		if res := rw.Rewritten(b.Context(), p, req, rewrite.Options{}); res.Outcome != rewrite.Injected || res.Ledger.ChunksSelected != 6 {
			b.Fatalf("%s %s", res.Outcome, res.Reason)
		}
	}
}
