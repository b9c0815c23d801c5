package tokens_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sidenote/rewrite/tokens"
)

// documents returns the texts of a collection next to the repository.
func documents(b *testing.B, collection string, n int) []string {
	b.Helper()
	var texts []string
	dec := json.NewDecoder(strings.NewReader(file(b, "../../../shared/ir", collection, "corpus.jsonl")))
	for n > 0 {
		var doc struct{ Title, Text string }
		if err := dec.Decode(&doc); err != nil {
			b.Fatal(err)
		}
		texts = append(texts, doc.Title+"\n"+doc.Text)
		n -= len(doc.Text)
	}
	return texts
}

// chat returns a request made of texts.
func chat(b *testing.B, texts []string, indent string) string {
	b.Helper()
	type message struct {
		Role    string   `json:"role"`
		Content string   `json:"content"`
		Tags    []string `json:"tags"`
		Score   float64  `json:"score"`
	}
	var messages []message
	for i, t := range texts {
		if indent != "" {
			t = t[:min(len(t), 30)]
		}
		messages = append(messages, message{[]string{"user", "assistant"}[i%2], t, strings.Fields(t)[:1], float64(i) / 7})
	}
	out, err := json.MarshalIndent(map[string]any{"model": "gpt-4o", "messages": messages, "stream": true}, "", indent)
	if err != nil {
		b.Fatal(err)
	}
	if indent == "" {
		var c bytes.Buffer
		if err := json.Compact(&c, out); err != nil {
			b.Fatal(err)
		}
		return c.String()
	}
	return string(out)
}

func file(b *testing.B, path ...string) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		b.Skip(err)
	}
	return string(text)
}

// BenchmarkReference encodes texts and reports how many times as fast as the reference that is.
func BenchmarkReference(b *testing.B) {
	const size = 200_000
	for kind, text := range map[string]func(*testing.B) string{
		"english":  func(b *testing.B) string { return strings.Join(documents(b, "scifact", size), "\n\n") },
		"chinese":  func(b *testing.B) string { return strings.Join(documents(b, "drcd", size), "\n\n") },
		"markdown": func(b *testing.B) string { return file(b, "../../README.md") },
		"go":       func(b *testing.B) string { return file(b, goroot(), "src/net/http/server.go") },
		"chat":     func(b *testing.B) string { return chat(b, documents(b, "scifact", size), "") },
		"indented": func(b *testing.B) string { return chat(b, documents(b, "scifact", 5*size), "    ") },
	} {
		for _, name := range names[:2] {
			b.Run(kind+"/"+name, func(b *testing.B) {
				text, e := text(b), encoding(b, name)
				ids := e.Append(nil, text)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = e.Append(ids[:0], text)
				}
				b.StopTimer()
				text = strings.ToValidUTF8(text[:min(len(text), 50_000)], "")
				b.ReportMetric(ratio(
					func() { oracle(name).EncodeOrdinary(text) },
					func() { ids = e.Append(ids[:0], text) },
				), "×reference")
			})
		}
	}
}

// ratio returns how many times as long slow takes as fast. They run alternately a few times, and
// the best times count, because the machine may have other work.
func ratio(slow, fast func()) float64 {
	const rounds, times = 9, 4
	least := [2]time.Duration{1 << 62, 1 << 62}
	for range rounds {
		start := time.Now()
		slow()
		least[0] = min(least[0], time.Since(start))
		for range times {
			start = time.Now()
			fast()
			least[1] = min(least[1], time.Since(start))
		}
	}
	return float64(least[0]) / float64(least[1])
}

// hostile returns units that, repeated, are the worst case of some step of the encoder.
func hostile() map[string]string {
	random := rand.New(rand.NewPCG(3, 4))
	shuffled := func(alphabet string) string {
		runes := []rune(alphabet)
		var s strings.Builder
		for s.Len() < 60_000 {
			s.WriteRune(runes[random.IntN(len(runes))])
		}
		return s.String()
	}
	return map[string]string{
		"letter": "a", "space": " ", "break": "\n", "equals": "=", "digit": "1", "han": "休", "emoji": "😀", "mark": "\u0301",
		"quotes": "'s", "camel": "aB", "hanCapital": "休A", "breaksSpaces": "\n ", "abcdefg": "abcdefg",
		"letters":  shuffled("abcdefghijklmnopqrstuvwxyz"),
		"few":      shuffled("ab"),
		"english":  shuffled("eeeettaaooiinnsshhrrdlcu"),
		"capitals": shuffled("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
		"clauses":  shuffled("的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"),
		"bytes":    shuffled("\u0800\u1000\u2000\u3000\u4e00\u5000\u6000\u7000\u8000\u9000\ua000\ub000\uc000"),
		"signs":    shuffled("=-_*#/+~^|<>{}[]().,:;!?@$%&"),
	}
}

// BenchmarkWorst encodes texts of one piece, or made to be read repeatedly by the pre-tokenizer;
// the reference takes minutes. Compare the sizes: ns/byte must not grow.
func BenchmarkWorst(b *testing.B) {
	e := encoding(b, "o200k_base")
	for name, unit := range hostile() {
		for _, size := range []int{25_000, 100_000, 400_000} {
			b.Run(fmt.Sprintf("%s/%dKB", name, size/1000), func(b *testing.B) {
				text := strings.Repeat(unit, size/len(unit)+1)[:size/12*12]
				ids := e.Append(nil, text)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = e.Append(ids[:0], text)
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(text)), "ns/byte")
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/op")
			})
		}
	}
}

// BenchmarkLoad builds each encoding and reports its size on the heap.
func BenchmarkLoad(b *testing.B) {
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			var e *tokens.Encoding
			for b.Loop() {
				var err error
				if e, err = tokens.New().Encoding(name); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			var with, without runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&with)
			runtime.KeepAlive(e)
			runtime.GC() // e is no longer used
			runtime.ReadMemStats(&without)
			b.ReportMetric(float64(with.HeapAlloc-without.HeapAlloc)/1e6, "MB-kept")
		})
	}
}
