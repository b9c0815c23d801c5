package explain

import (
	"strings"

	"sidenote/rewrite"
)

const (
	// counters is how many documents are counted at once. Of n sources given each count is short by
	// n/(counters+1) at most, and by nothing while there are no more documents.
	counters = 128
	// MaxOverviewID is how much of an id or a name is kept, in bytes; what is as long may have been cut.
	MaxOverviewID = 256
)

// A document is one of a base.
type document struct{ knowledge, id string }

// A count is how often a document was given.
type count struct {
	times uint32
	name  string
}

// A top counts which documents are given most, by the algorithm of Misra and Gries ("Finding repeated
// elements", 1982): where there is no counter for another one, all lose one. Counts of several can be
// added up (Agarwal et al., "Mergeable summaries", 2012).
type top struct {
	counts map[document]*count
	short  uint32 // how much each count may be short
}

func (t *top) reset() {
	if t.counts == nil {
		t.counts = make(map[document]*count, counters)
	}
	clear(t.counts)
	t.short = 0
}

// addAll counts the sources that are in the prompt.
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

// clip returns the beginning of a text that is too long.
func clip(text string) string {
	if len(text) <= MaxOverviewID {
		return text
	}
	return strings.ToValidUTF8(text[:MaxOverviewID], "")
}
