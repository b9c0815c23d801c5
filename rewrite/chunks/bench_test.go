package chunks_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tokens"
)

// memory returns n chunks of 500 bytes, as turns of a conversation and calls of tools. They
// differ between turns.
func memory(n, turn int) []chunks.Chunk {
	const prose = "The hotel near the station has forty rooms, of which ten look over the river; breakfast is served from seven.\n"
	list := make([]chunks.Chunk, n)
	for i := range list {
		text := fmt.Sprintf("Turn %d, entry %d. ", turn, i) + strings.Repeat(prose, 5)
		c := chunks.Chunk{ID: fmt.Sprintf("c%d", i), Type: chunks.Agent, Role: "user", Content: chunks.Text(text[:500])}
		switch i % 4 {
		case 1:
			c.Role = "assistant"
		case 2:
			c.Type, c.Role, c.Metadata = chunks.Workflow, "", map[string]any{"tool": "search", "call_id": c.ID}
		case 3:
			c.Type, c.Role, c.Metadata = chunks.Environment, "", map[string]any{"tool": "search", "call_id": c.ID, "success": true}
		}
		list[i] = c
	}
	return list
}

func build(b *testing.B, counter tokens.Counter, counts *tokens.Cache, list []chunks.Chunk) {
	r, err := (&chunks.Builder{Counter: counter, Counts: counts}).Build(list, chunks.Options{MaxTokens: 1 << 24})
	if err != nil || len(r.Included) != len(list) {
		b.Fatalf("%d of %d chunks are in: %v", len(r.Included), len(list), err)
	}
}

// BenchmarkBuild builds messages from chunks of 500 bytes: cold, all of them new, and warm, all
// but the last seen in the previous turn.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("cold/%d", n), func(b *testing.B) {
			counter := encoding(b, "o200k_base")
			for turn := 0; b.Loop(); turn++ {
				b.StopTimer()
				list, counts := memory(n, turn), tokens.NewCache(14)
				b.StartTimer()
				build(b, counter, counts, list)
			}
		})
		b.Run(fmt.Sprintf("warm/%d", n), func(b *testing.B) {
			counter, counts := encoding(b, "o200k_base"), tokens.NewCache(14)
			list := memory(n, 0)
			build(b, counter, counts, list)
			last := list[n-1].Content.String()
			for turn := 0; b.Loop(); turn++ {
				list[n-1].Content = chunks.Text(fmt.Sprintf("%09d%s", turn, last[9:]))
				build(b, counter, counts, list)
			}
		})
	}
}

// BenchmarkParse parses the JSON of 1,000 chunks of 500 bytes.
func BenchmarkParse(b *testing.B) {
	var all []string
	for _, c := range memory(1000, 0) {
		all = append(all, fmt.Sprintf(`{"id":%q,"type":%q,"role":"user","content":%q,"metadata":{"tool":"search","success":true}}`, c.ID, c.Type, c.Content))
	}
	list := []byte("[" + strings.Join(all, ",") + "]")
	b.SetBytes(int64(len(list)))
	for b.Loop() {
		if _, err := chunks.Parse(list); err != nil {
			b.Fatal(err)
		}
	}
}

// Memory grows linearly with the number of chunks, in whatever order they are tried.
func TestLinear(t *testing.T) {
	counter := encoding(t, "o200k_base")
	for _, fit := range []chunks.Fit{chunks.FitFirst, chunks.FitRecent, chunks.FitPriority} {
		allocated := func(n int) float64 {
			list := memory(n, 0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := (&chunks.Builder{Counter: counter}).Build(list, chunks.Options{MaxTokens: 100 * n, Fit: fit}); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
		}
		// Pooled memory may be gone in between and is then allocated again; quadratic growth
		// would be eight times as much per chunk.
		if few, many := allocated(1000), allocated(8000); many > 4*few {
			t.Errorf("%s: %.0f bytes a chunk of 1,000, %.0f of 8,000", fit, few, many)
		}
	}
}
