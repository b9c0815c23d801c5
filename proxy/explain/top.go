package explain

import (
	"strings"

	"sidenote/rewrite"
)

const (
	// counters is the number of documents counted at a time. After n sources each count is too low
	// by at most n/(counters+1), and exact if there are no more documents than counters.
	counters = 128
	// MaxOverviewID is the length in bytes to which ids and names are cut.
	MaxOverviewID = 256
)

// A document identifies a document in a base.
type document struct{ knowledge, id string }

// A count is how often a document was used.
type count struct {
	times uint32
	name  string
}

// A top counts the most used documents by the algorithm of Misra and Gries ("Finding repeated
// elements", 1982): if there is no counter for another document, all are decremented. Several tops
// can be added up (Agarwal et al., "Mergeable summaries", 2012).
type top struct {
	counts map[document]*count
	short  uint32 // maximum error of each count
}

func (t *top) reset() {
	if t.counts == nil {
		t.counts = make(map[document]*count, counters)
	}
	clear(t.counts)
	t.short = 0
}

// addAll counts the sources in the prompt.
func (t *top) addAll(sources []rewrite.SourceEntry) {
	for i := range sources {
		if s := &sources[i]; s.ID > 0 {
			t.add(document{clip(s.Knowledge), clip(s.Doc)}, s.Name)
		}
	}
}

func (t *top) add(d document, name string) {
	if c := t.counts[d]; c != nil {
		c.times++
		return
	}
	if len(t.counts) < counters {
		d = document{strings.Clone(d.knowledge), strings.Clone(d.id)} // they may be part of a longer text
		t.counts[d] = &count{1, strings.Clone(clip(name))}
		return
	}
	t.short++
	for d, c := range t.counts {
		if c.times--; c.times == 0 {
			delete(t.counts, d)
		}
	}
}

// clip returns text, cut to MaxOverviewID.
func clip(text string) string {
	if len(text) <= MaxOverviewID {
		return text
	}
	return strings.ToValidUTF8(text[:MaxOverviewID], "")
}
