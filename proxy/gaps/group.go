package gaps

import (
	"cmp"
	"container/heap"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/followup"
)

// Constants of the grouping, chosen on questions about paragraphs of DRCD and on English questions
// of this package's tests.
const (
	leastLink   = 0.03 // smallest similarity of two questions that counts
	leastMean   = 0.14 // smallest mean similarity of the questions of two groups that are merged
	ownTerm     = 0.1  // share of a term that no other question has in the length of a vector
	nearShare   = 0.15 // of the similarity of two questions, by the documents near to both
	mostLinks   = 64   // links of one question, the strongest ones
	commonTerms = 500  // a term that more questions have links none of them
)

// A termVector holds the terms of a question with their weights, of length 1.
type termVector map[string]float64

// frequencies counts in how many questions a term is.
type frequencies struct {
	questions int
	of        map[string]int
}

// add counts the terms of a question.
func (f *frequencies) add(terms map[string]float64) {
	f.questions++
	for t := range terms {
		f.of[t]++
	}
}

// termsOf returns the terms of a question and, if it refers to earlier turns, those of these turns,
// with the weight of each turn.
func termsOf(text string, earlier []string) map[string]float64 {
	terms := map[string]float64{}
	add := func(text string, weight float64) {
		for _, t := range analysis.Terms(followup.Clip(text)) {
			topic, _ := analysis.Topicality(t)
			terms[t] = max(terms[t], topic*weight)
		}
	}
	add(text, 1)
	for _, turn := range followup.Join(text, backward(earlier)) {
		add(turn.Text, turn.Weight)
	}
	return terms
}

// smallTalk reports whether no term is about a topic, as in "Thanks, that helped".
func smallTalk(terms map[string]float64) bool {
	for t := range terms {
		if !analysis.Conversational(t) {
			return false
		}
	}
	return true
}

// key returns the same text for vectors with the same terms, whatever terms of its own a question
// has; "" if there are none.
func (v termVector) key() string { return strings.Join(slices.Sorted(maps.Keys(v)), "\x00") }

// backward yields texts from the last to the first.
func backward(texts []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, text := range slices.Backward(texts) {
			if !yield(text) {
				return
			}
		}
	}
}

// vector weighs the terms of a question by the square of how rare they are (inverse document
// frequency, Spärck Jones 1972), so that words of any question ("who is the author of") do not make
// a meaning, and scales them to the length 1. Terms that no other question has count little: with
// them, long questions would be similar to none.
func (f *frequencies) vector(terms map[string]float64) termVector {
	v, sum := termVector{}, 0.0
	for t, weight := range terms {
		rare := math.Log(float64(f.questions+1) / (float64(f.of[t]) + .5))
		if w := weight * rare * rare; rare > 0 && w > 0 {
			if f.of[t] == 1 {
				sum += w * w * ownTerm
				continue
			}
			v[t] = w
			sum += w * w
		}
	}
	for t := range v {
		v[t] /= math.Sqrt(sum)
	}
	return v
}

// documentsOf returns the documents near to a question with their relevance.
func documentsOf(f Finding) map[string]float64 {
	near := map[string]float64{}
	for _, d := range f.Nearest {
		near["\x00"+d.Knowledge+"\x00"+d.ID] = d.Relevance
	}
	return near
}

// near weighs the documents near to a question by their relevance and by how few questions they are
// near to: its length is 1 for documents that are near to no other question, and 0 for those that
// are near to all.
func (f *frequencies) near(documents map[string]float64) termVector {
	v, sum := termVector{}, 0.0
	for _, relevance := range documents {
		sum += relevance * relevance
	}
	most := math.Log(float64(f.questions+1) / 1.5)
	for d, relevance := range documents {
		if rare := math.Log(float64(f.questions+1) / (float64(f.of[d]) + .5)); rare > 0 && relevance > 0 {
			v[d] = relevance / math.Sqrt(sum) * rare / most
		}
	}
	return v
}

// beside returns v together with the vector of the documents near to the question, which has the
// share nearShare.
func (v termVector) beside(near termVector) termVector {
	if len(near) == 0 {
		return v
	}
	for t := range v {
		v[t] *= math.Sqrt(1 - nearShare)
	}
	for d, w := range near {
		v[d] = w * math.Sqrt(nearShare)
	}
	return v
}

// group joins questions of one meaning: it merges the two groups whose questions are most similar
// in the mean, as long as that is at least leastMean (average linkage, Sokal and Michener 1958). The
// similarity of two questions is the cosine of their vectors. counts says how often each question
// was asked. The groups are lists of indices. It ends with ctx, with the groups so far.
func group(ctx context.Context, vectors []termVector, counts []int) [][]int {
	g := &grouping{links: linksOf(ctx, vectors), members: make([][]int, len(vectors)), size: make([]float64, len(vectors))}
	for i := range vectors {
		g.members[i], g.size[i] = []int{i}, float64(counts[i])
	}
	for i, links := range g.links {
		for j, sim := range links {
			links[j] = sim * g.size[i] * g.size[j]
		}
		for _, j := range slices.Sorted(maps.Keys(links)) {
			if j > i {
				g.propose(i, j)
			}
		}
	}
	for len(g.heap) > 0 && ctx.Err() == nil {
		m := heap.Pop(&g.heap).(merger)
		if g.members[m.a] != nil && g.members[m.b] != nil && g.mean(m.a, m.b) == m.mean {
			g.merge(m.a, m.b)
		}
	}
	return slices.DeleteFunc(g.members, func(list []int) bool { return list == nil })
}

// linksOf returns, for each vector, the similarity to those to which it is similar, in both
// directions.
func linksOf(ctx context.Context, vectors []termVector) []map[int]float64 {
	having, links := map[string][]int{}, make([]map[int]float64, len(vectors))
	for i := range vectors {
		links[i] = map[int]float64{}
		if ctx.Err() != nil {
			continue
		}
		sims := map[int]float64{}
		for _, t := range slices.Sorted(maps.Keys(vectors[i])) {
			if list := having[t]; len(list) <= commonTerms {
				for _, j := range list {
					sims[j] += vectors[i][t] * vectors[j][t]
				}
			}
			having[t] = append(having[t], i)
		}
		for _, j := range strongest(sims) {
			links[i][j], links[j][i] = sims[j], sims[j]
		}
	}
	return links
}

// strongest returns the keys of the largest values that count.
func strongest(sims map[int]float64) []int {
	var list []int
	for j, sim := range sims {
		if sim >= leastLink {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(sims[b], sims[a]), cmp.Compare(a, b)) })
	return list[:min(len(list), mostLinks)]
}

// A grouping is the state of group.
type grouping struct {
	links   []map[int]float64 // by group: to other groups, the sum of the similarities of their questions
	members [][]int           // nil for a group that was merged into another
	size    []float64         // questions, each as often as it was asked
	heap    mergers
}

func (g *grouping) mean(a, b int) float64 { return g.links[a][b] / (g.size[a] * g.size[b]) }

// propose adds a possible merger if the groups are similar enough.
func (g *grouping) propose(a, b int) {
	if mean := g.mean(a, b); mean >= leastMean {
		heap.Push(&g.heap, merger{mean, min(a, b), max(a, b)})
	}
}

// merge moves the questions of b to a.
func (g *grouping) merge(a, b int) {
	g.members[a], g.members[b] = append(g.members[a], g.members[b]...), nil
	g.size[a] += g.size[b]
	for other, sum := range g.links[b] {
		delete(g.links[other], b)
		if other != a {
			g.links[a][other] += sum
			g.links[other][a] = g.links[a][other]
		}
	}
	g.links[b] = nil
	for _, other := range slices.Sorted(maps.Keys(g.links[a])) {
		g.propose(a, other)
	}
}

// A merger is two groups, a < b, that may become one.
type merger struct {
	mean float64
	a, b int
}

// mergers is a heap with the most similar groups first; of equal ones, the first.
type mergers []merger

func (h mergers) Len() int { return len(h) }
func (h mergers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].mean, h[i].mean), cmp.Compare(h[i].a, h[j].a), cmp.Compare(h[i].b, h[j].b)) < 0
}
func (h mergers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mergers) Push(x any)   { *h = append(*h, x.(merger)) }
func (h *mergers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
