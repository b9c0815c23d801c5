package eval_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

var docs = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}

func drawGrades(t *rapid.T) eval.Grades {
	return rapid.MapOf(rapid.SampledFrom(docs), rapid.IntRange(-1, 3)).Draw(t, "grades")
}

func drawRanking(t *rapid.T) []string {
	ranking := rapid.Permutation(docs).Draw(t, "ranking")
	return ranking[:rapid.IntRange(0, len(docs)).Draw(t, "length")]
}

// All measures are between 0 and 1, and do not decrease with depth in the case of recall.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, ranking, k := drawGrades(t), drawRanking(t), rapid.IntRange(1, 16).Draw(t, "k")
		for name, value := range map[string]float64{
			"nDCG": g.NDCG(ranking, k), "recall": g.Recall(ranking, k), "reciprocal rank": g.ReciprocalRank(ranking, k),
		} {
			if !(value >= 0 && value <= 1+1e-12) {
				t.Fatalf("%s is %v", name, value)
			}
			if value > 0 && g.Relevant() == 0 {
				t.Fatalf("%s is %v, and nothing is relevant", name, value)
			}
		}
		if g.Recall(ranking, k) > g.Recall(ranking, k+1) || g.ReciprocalRank(ranking, k) > g.ReciprocalRank(ranking, k+1) {
			t.Fatal("less is found deeper")
		}
	})
}

// The best ranking scores 1 at every depth; recall is as high as k allows.
func TestPerfect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, k := drawGrades(t), rapid.IntRange(1, 16).Draw(t, "k")
		ranking := slices.Clone(docs)
		slices.SortStableFunc(ranking, func(a, b string) int { return g[b] - g[a] })
		n := g.Relevant()
		if n == 0 {
			return
		}
		if got := g.NDCG(ranking, k); math.Abs(got-1) > 1e-12 {
			t.Fatalf("nDCG %v", got)
		}
		if got := g.ReciprocalRank(ranking, k); got != 1 {
			t.Fatalf("reciprocal rank %v", got)
		}
		if got, want := g.Recall(ranking, k), float64(min(n, k))/float64(n); got != want {
			t.Fatalf("recall %v, want %v", got, want)
		}
	})
}

// Moving a more relevant document up never lowers a measure.
func TestBetterIsNotWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, ranking, k := drawGrades(t), drawRanking(t), rapid.IntRange(1, 16).Draw(t, "k")
		if len(ranking) < 2 {
			return
		}
		i := rapid.IntRange(0, len(ranking)-2).Draw(t, "i")
		j := rapid.IntRange(i+1, len(ranking)-1).Draw(t, "j")
		if g[ranking[i]] > g[ranking[j]] {
			i, j = j, i
		}
		better := slices.Clone(ranking)
		if i < j {
			better[i], better[j] = better[j], better[i]
		}
		if g.NDCG(better, k) < g.NDCG(ranking, k)-1e-12 || g.Recall(better, k) < g.Recall(ranking, k) ||
			g.ReciprocalRank(better, k) < g.ReciprocalRank(ranking, k) {
			t.Fatalf("%v is worse than %v", better, ranking)
		}
	})
}

// A document is ranked by its best chunk, whatever the order of chunks.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		best := map[string]float64{}
		var sources []retrieval.Source
		for i := range rapid.IntRange(0, 30).Draw(t, "chunks") {
			s := retrieval.Source{
				Doc: rapid.SampledFrom(docs).Draw(t, "doc"), Chunk: i, Score: float64(rapid.IntRange(1, 8).Draw(t, "score")),
			}
			best[s.Doc] = max(best[s.Doc], s.Score)
			sources = append(sources, s)
		}
		ranked := eval.Rank(sources)
		if shuffled := eval.Rank(rapid.Permutation(sources).Draw(t, "other order")); !slices.Equal(ranked, shuffled) {
			t.Fatalf("%v, in another order %v", ranked, shuffled)
		}
		if len(ranked) != len(best) {
			t.Fatalf("%d documents, want %d", len(ranked), len(best))
		}
		for i, s := range ranked {
			if s.Score != best[s.Doc] || i > 0 && ranked[i-1].Score < s.Score {
				t.Fatalf("%s has %v at place %d, its best chunk %v", s.Doc, s.Score, i, best[s.Doc])
			}
		}
	})
}
