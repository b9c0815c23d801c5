// Package followup tells follow-up questions ("and how do I drop it without locking?", "why?")
// from those that stand alone, and selects the earlier user turns that join their search, with
// weights.
//
// It decides by words only: pronouns without an antecedent in the question, conjunctions at its
// beginning, fragments, and questions without content words. It knows English, German, French,
// Spanish and Chinese. In other languages only a question that is much shorter than the one before
// is a follow-up.
package followup

import (
	"iter"
	"unicode/utf8"

	"sidenote/retrieval"
)

const (
	// MaxTurns is the maximum number of earlier turns to look at.
	MaxTurns = 8
	// MaxBytes is how much of an earlier turn is used, half of it from each end.
	MaxBytes = 1 << 10

	// mass limits the total weight of all earlier turns, in terms of the question, so that a long
	// history does not outweigh the question's own terms.
	mass = 4
)

// Depends reports whether earlier turns may join the search for text. It takes about a
// microsecond, up to five for Chinese, and less for a long text (BenchmarkDepends).
func Depends(text string) bool { return read(text).tie > 0 }

// Join returns the earlier turns that join the search for text, nil if it stands alone. earlier
// yields them last first; Join reads it up to the turn that names the topic, and at most MaxTurns.
//
// The weight of a turn is that of the following turn times the strength of the following turn's
// tie to it. Weights are above 0, at most 1, and never grow towards earlier turns.
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
			return nil // as specific as the turn before: a topic of its own
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
	case question.own == 0: // nothing to outweigh
		scale = 1 / joined[0].Weight
	case terms > mass:
		scale = mass / terms
	}
	for i := range joined {
		joined[i].Weight *= scale
	}
	return joined
}

// clip returns text, or its two ends on two lines, MaxBytes in total.
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
