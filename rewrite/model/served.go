package model

import "slices"

// Some servers truncate prompts that are longer than the window they were started with, and
// answer 200: Ollama by its num_ctx, LM Studio by its context length. They bill the truncated
// prompt. So a window shows in bills that are lower than the count and close to each other, while
// no complete prompt is billed at more.
const (
	// minCuts is how many truncated prompts are needed to detect a window.
	minCuts = 4
	// maxCuts is how many are kept.
	maxCuts = 16
	// leastWindow is the smallest window accepted. Servers that bill only what their prompt cache
	// lacked report small numbers for long prompts, too.
	leastWindow = 1024
)

// cut reports whether the prompt was truncated: less than two thirds of it was billed. No
// tokenizer differs that much from the ones used for counting.
func (s sample) cut() bool {
	return s.billed >= leastWindow && s.billed <= maxBilled && 3*s.billed < 2*s.counted
}

// A served is the observed window of an upstream.
type served struct {
	cuts  []int // bills of truncated prompts, oldest first, at most maxCuts
	quiet int   // answers since the last truncated prompt
}

// observe records an answer and returns the window; 0 is unknown. complete are the other samples.
// The window is forgotten when a prompt is billed at a third more, or when none was truncated for
// a while: the server may have been restarted with another one.
func (w *served) observe(s sample, complete []sample) int {
	switch {
	case s.cut():
		w.cuts = append(w.cuts[max(0, len(w.cuts)-maxCuts+1):len(w.cuts):len(w.cuts)], s.billed)
		w.quiet = 0
	case s.absurd() || len(w.cuts) == 0:
	default:
		w.quiet++
		if w.quiet > ringSize || 3*s.billed > 4*slices.Max(w.cuts) {
			*w = served{}
		}
	}
	return w.window(complete)
}

func (w *served) window(complete []sample) int {
	if len(w.cuts) < minCuts {
		return 0
	}
	most, near, whole := slices.Max(w.cuts), 0, 0
	for _, n := range w.cuts {
		if 4*n >= 3*most {
			near++
		}
	}
	for _, s := range complete {
		if !s.cut() {
			whole = max(whole, s.billed)
		}
	}
	if near < minCuts || 4*most < 3*whole {
		return 0
	}
	return max(most, whole)
}
