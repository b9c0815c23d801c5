package bm25

import (
	"fmt"
	"runtime"

	"sidenote/retrieval/analysis"
)

// Scoring identifies the scoring function: a Saved of another one is useless. Increment its number
// when scores change without a change of the other parts.
func Scoring() string {
	return fmt.Sprint("bm25 1 ", k1, " ", b, " ", keptTexts, " ", analysis.Version)
}

// A Saved is the serialized form of the Bests of some questions. Segments have the numbers that
// they had in the Index.
type Saved struct {
	Average float64 // average length of a text
	Bests   []SavedBest
}

// A SavedBest is the serialized form of a Best.
type SavedBest struct {
	Terms []SavedTerm
	Texts []SavedText
	Rest  float64 // upper bound of the scores of all other texts
}

// A SavedTerm is a term of a question, with its factor.
type SavedTerm struct {
	Text   string
	Factor float32
}

// A SavedText is a text with its score.
type SavedText struct {
	Ref
	Score int64
}

// Save serializes Bests of x.
func Save(x *Index, bests []Best) Saved {
	number := make(map[*Segment]int, len(x.views))
	for i, v := range x.views {
		number[v.segment] = i
	}
	s := Saved{Average: x.average, Bests: make([]SavedBest, len(bests))}
	for i, b := range bests {
		saved := SavedBest{Rest: b.rest}
		for _, t := range b.terms {
			saved.Terms = append(saved.Terms, SavedTerm{t.term, t.factor})
		}
		for _, k := range b.texts {
			saved.Texts = append(saved.Texts, SavedText{Ref{number[k.segment], k.text}, k.score})
		}
		s.Bests[i] = saved
	}
	return s
}

// Restore returns Bests for Index.Best, and the change since they were saved. number maps saved
// segment numbers to those in x, or to -1. Deleted texts do not become live again: a Saved is
// stored with the documents, so both are restored together.
//
// ok is false if the Saved is unusable, for example because a text is missing, or has another
// score although nothing has changed.
func (s *Saved) Restore(x *Index, number []int) (bests []Best, change *Change, ok bool) {
	defer runtime.KeepAlive(x)
	change = newChange(x, s.Average)
	here := make([]bool, len(x.views))
	for _, n := range number {
		if n >= len(x.views) {
			return nil, nil, false
		}
		if n >= 0 {
			here[n] = true
		}
	}
	for i, v := range x.views {
		if !here[i] {
			change.fresh[i].AddRange(0, v.segment.Len())
		}
	}
	bests = make([]Best, len(s.Bests))
	for i := range s.Bests {
		saved, best := &s.Bests[i], &bests[i]
		best.rest = saved.Rest
		same := x.average == s.Average
		var q question
		for _, t := range saved.Terms {
			term := weightedTerm{x.look(t.Text, change), t.Factor}
			if best.terms = append(best.terms, term); same {
				q = append(q, term)
			}
		}
		for _, t := range saved.Texts {
			if t.Segment < 0 || t.Segment >= len(number) {
				return nil, nil, false
			}
			n := number[t.Segment]
			if n < 0 {
				continue
			}
			v := &x.views[n]
			if t.Text < 0 || t.Text >= v.segment.Len() || same && v.score(q, Ref{n, t.Text}) != t.Score {
				return nil, nil, false
			}
			best.texts = append(best.texts, keptText{v.segment, t.Text, t.Score})
		}
	}
	return bests, change, true
}
