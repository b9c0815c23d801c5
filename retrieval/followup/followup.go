// Package followup tells a question that goes on from what was said before ("and how do I
// drop it without locking?", "why?") from one that stands alone, and says which of the
// user's earlier texts join its search, and with which weight.
//
// It decides by words alone: pronouns that have nothing in the question to stand for,
// conjunctions at its beginning, fragments, and questions with no word of their own. It
// knows English, German, French, Spanish and Chinese. In other languages only a question
// that is much shorter than the one before goes on from it.
package followup

import (
	"iter"
	"unicode/utf8"

	"sidenote/retrieval"
)

const (
	// MaxTurns is how many earlier turns are looked at.
	MaxTurns = 8
	// MaxBytes is how much of an earlier turn joins, half of it from each end.
	MaxBytes = 1 << 10

	// mass is how many terms of a question all earlier turns together weigh at most, so that a
	// question with terms of its own is not outweighed by a long history.
	mass = 4
)

// Depends tells whether earlier turns may join the search for text. It takes
// about a microsecond, up to five for Chinese, and less for a long text (BenchmarkDepends).
func Depends(text string) bool { return read(text).tie > 0 }

// Join returns the earlier turns that join the search for text, nil if it stands alone.
// earlier yields them last first and is not read further than the turn that says what the
// talk is about, nor beyond MaxTurns.
//
// Each turn hands on a part of the weight it has, depending on how much it leans on the one
// before it. Weights are above 0, at most 1, and fall from turn to turn.
func Join(text string, earlier iter.Seq[string]) []retrieval.Turn {
	question := read(text)
	tie := question.tie
	if tie == 0 {
		return nil
	}
	var joined []retrieval.Turn
	terms, looked := 0.0, 0
	for turn := range earlier {
		if looked++; looked > MaxTurns {
			break
		}
		turn = clip(turn)
		before := read(turn)
		if before.empty {
			continue
		}
		if len(joined) == 0 && before.tie == 0 && tie < tieOpens && question.own >= before.own {
			return nil // it says as much, so it is a topic of its own
		}
		if before.own > 0 {
			joined = append(joined, retrieval.Turn{Text: subject(turn), Weight: tie})
			terms += tie * float64(before.own)
		}
		if tie *= before.tie; tie == 0 {
			break
		}
	}
	scale := 1.0
	switch {
	case len(joined) == 0:
		return nil
	case question.own == 0: // there is nothing to outweigh
		scale = 1 / joined[0].Weight
	case terms > mass:
		scale = mass / terms
	}
	for i := range joined {
		joined[i].Weight *= scale
	}
	return joined
}

// clip returns at most MaxBytes of text and a line feed: its two ends.
func clip(text string) string {
	if len(text) <= MaxBytes+len("\n") {
		return text
	}
	first, last := MaxBytes/2, len(text)-MaxBytes/2
	for first > 0 && !utf8.RuneStart(text[first]) {
		first--
	}
	for last < len(text) && !utf8.RuneStart(text[last]) {
		last++
	}
	return text[:first] + "\n" + text[last:]
}
