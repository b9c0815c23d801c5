package tokens_test

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"sidenote/rewrite/tokens"
)

// prose returns n bytes of text made of words seen before, but different for each seed.
func prose(n, seed int) string {
	words := strings.Fields("every parent may take sixteen weeks of leave after the first six months of service, and the office asks for a form in writing before the date. Section Holidays and benefits are paid out monthly; see also `benefits.md` for details about the plan")
	var b strings.Builder
	for i := seed; b.Len() < n; i = i*48271%2147483647 + 1 {
		b.WriteString(words[i%len(words)])
		b.WriteByte(" \n"[min(1, i%12/11)])
	}
	return b.String()[:n]
}

func BenchmarkCountWarm(b *testing.B) {
	e := encoding(b, "o200k_base")
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := prose(size, 1)
			e.Count(s)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				e.Count(s)
			}
		})
	}
}

// BenchmarkCountNew counts new texts made of words seen before.
func BenchmarkCountNew(b *testing.B) {
	e := encoding(b, "o200k_base")
	s := prose(1<<20, 7)
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 61) % (len(s) - 4<<10)
		e.Count(s[i : i+4<<10])
	}
}

// BenchmarkCountCold counts without any cache: every word is new.
func BenchmarkCountCold(b *testing.B) {
	e := encoding(b, "o200k_base")
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		var s strings.Builder
		for s.Len() < 4<<10 {
			i++
			fmt.Fprintf(&s, "leave%xparent ", i*7919)
		}
		cold := s.String()[:4<<10]
		b.StartTimer()
		e.Count(cold)
	}
}

// BenchmarkSum sums six sources after an application's text, as each request does.
func BenchmarkSum(b *testing.B) {
	e := encoding(b, "o200k_base")
	parts := []string{"You are the HR assistant.", "\n\n", "<sources>\nExcerpts retrieved for the user.\n"}
	for i := range 6 {
		parts = append(parts, fmt.Sprintf("<source id=\"%d\">\n%s\n</source>\n", i+1, prose(1500, i+1)))
	}
	parts = append(parts, "</sources>\n")
	b.ReportAllocs()
	for b.Loop() {
		tokens.Sum(e, parts...)
	}
}

func BenchmarkDelta(b *testing.B) {
	e := encoding(b, "o200k_base")
	block := "<sources>\n" + prose(5<<10, 4) + "\n</sources>\n"
	for name, old := range map[string]string{
		"seam":    prose(20<<10, 3) + "end",
		"joint":   prose(20<<10, 3) + "end.",
		"Chinese": strings.Repeat("每位家长在工作满六个月后可以休十六周的假。", 500) + strings.Repeat("敏捷的棕色狐狸", 20),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tokens.Delta(e, old, "\n\n", block)
			}
		})
	}
}

func BenchmarkBetween(b *testing.B) {
	e := encoding(b, "o200k_base")
	left, mid, right := prose(20<<10, 3)+"end.", "\n\n<sources>\n"+prose(5<<10, 4)+"\n</sources>", "And "+prose(20<<10, 6)
	b.ReportAllocs()
	for b.Loop() {
		tokens.Between(e, left, mid, right)
	}
}

// BenchmarkHostile counts the worst text that a client can send: one run that cannot be cut.
func BenchmarkHostile(b *testing.B) {
	e := encoding(b, "o200k_base")
	s := strings.Repeat("a", 400_000)
	b.Run("delta", func(b *testing.B) {
		for b.Loop() {
			tokens.Delta(e, s, "\n\n", "<sources>\n")
		}
	})
	b.Run("cut", func(b *testing.B) {
		for b.Loop() {
			tokens.Cut(e, s, 1000)
		}
	})
	b.Run("cutdots", func(b *testing.B) {
		s := strings.Repeat(".", 400_000)
		for b.Loop() {
			tokens.Cut(e, s, 1000)
		}
	})
}

func BenchmarkCut(b *testing.B) {
	e := encoding(b, "o200k_base")
	s := prose(8<<10, 5)
	b.ReportAllocs()
	for b.Loop() {
		tokens.Cut(e, s, 700)
	}
}

func BenchmarkLookup(b *testing.B) {
	table := tokens.Builtin()
	for name, model := range map[string]string{
		"first":   "gpt-6-luna",
		"vendor":  "openai/gpt-4o-mini",
		"Bedrock": "us.anthropic.Claude-3-5-Sonnet-20241022-v2:0",
		"last":    "granite-4",
		"none":    "my-deployment",
		"hostile": strings.Repeat("a/", 120) + "claude",
		"huge":    strings.Repeat("gpt-4o/", 1<<17),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tokens.Lookup(table, model)
			}
		})
	}
}

// BenchmarkNoSeam searches a long text without a seam for one, so it reads to the start.
func BenchmarkNoSeam(b *testing.B) {
	e := encoding(b, "o200k_base")
	left, right := strings.Repeat("敏捷的棕色狐狸", 5000), strings.Repeat("跳过了懒狗", 5000)
	b.SetBytes(int64(len(left) + len(right)))
	for b.Loop() {
		tokens.Delta(e, left, right)
	}
}

// BenchmarkKey computes the keys of 200 KB in texts of a given length, compared with maphash
// alone.
func BenchmarkKey(b *testing.B) {
	c, seed := tokens.NewCache(4), maphash.MakeSeed()
	all := []byte(prose(200_000, 1))
	for _, size := range []int{64, 400, 1400, 5000, 20_000} {
		each := func(name string, key func(text []byte)) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(all) / size * size))
				b.ReportAllocs()
				for b.Loop() {
					for i := 0; i+size <= len(all); i += size {
						key(all[i : i+size])
					}
				}
			})
		}
		each("Key", func(text []byte) { c.Key(text) })
		each("maphash", func(text []byte) { maphash.Bytes(seed, text) })
	}
}
