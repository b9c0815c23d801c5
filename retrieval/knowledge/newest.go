package knowledge

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A base may have more versions of a document than a search finds, all of which score alike. Which
// of them is the newest is then read from the labels of all documents, once for each Content.

// leastNewest is the number of texts of newest versions that are added to what was found.
const leastNewest = 8

// A timeline is the versions of the documents in a Content.
type timeline struct {
	once  sync.Once
	known atomic.Pointer[versionsOf] // nil until it is made
}

// versionsOf is what a timeline knows.
type versionsOf struct {
	of        *retrieval.Timeline
	documents []bm25.Ref    // the first text of each, by number
	common    []bm25.Bitmap // by segment: the texts of documents whose words their versions make common
}

// versions returns the versions of the documents. In a large base they are read in the background,
// once; until then it returns nil.
func (e *extent) versions() *versionsOf {
	t := &e.content.timeline
	t.once.Do(func() {
		of := *e
		read := func() {
			_ = of.content.Guard(func() error { // damage is reported to ContentOptions.Damaged
				t.known.Store(of.readVersions())
				return nil
			})
		}
		if documentsIn(e.content.segments) <= smallBase {
			read()
		} else {
			go read()
		}
	})
	return t.known.Load()
}

func documentsIn(segments index.Segments) (n int) {
	for i := range segments {
		n += segments[i].Documents
	}
	return n
}

// readVersions reads the labels of all documents.
func (e *extent) readVersions() *versionsOf {
	segments, v := e.content.segments, &versionsOf{}
	for d := range segments.InOrder() {
		for ref := range segments.Texts(d) {
			v.documents = append(v.documents, ref)
			break
		}
	}
	v.of, v.common = retrieval.NewTimeline(func(yield func(string, retrieval.Label) bool) {
		for _, ref := range v.documents {
			if !yield(strconv.Itoa(e.base(ref)), segments.Label(ref)) {
				return
			}
		}
	}), make([]bm25.Bitmap, len(segments))
	for number := range v.of.Common() {
		span := segments.Span(v.documents[number])
		v.common[span.Segment].AddRange(span.First, span.End)
	}
	return v
}

// smallBase is the number of documents up to which versions of one are likely to be many of them.
const smallBase = 1000

// newest returns those hits that are versions of documents of which hits, at most k, may lack some,
// and the texts of the newest versions that they lack; nil if they lack none.
func (e *extent) newest(hits []retrieval.Hit, k int, allowed []bm25.Bitmap) (crowd []bm25.Ref, only []bm25.Bitmap) {
	for _, h := range hits[:min(len(hits), witnesses)] {
		if h.Undated || documentsIn(e.content.segments) > smallBase {
			continue
		}
		if v, ref := e.versions(), refOf(h.At); v != nil && v.common[ref.Segment].Has(ref.Text) {
			crowd = append(crowd, ref)
		}
	}
	if len(hits) < k {
		return crowd, nil
	}
	segments := e.content.segments
	for _, i := range retrieval.Crowded(hits) {
		if hits[i].Undated {
			continue
		}
		t, ref := e.versions(), refOf(hits[i].At)
		if t == nil {
			continue
		}
		number, ok := t.of.Newest(strconv.Itoa(e.base(ref)), segments.Label(ref), func(number int) bool {
			ref := t.documents[number]
			return allowed == nil || allowed[ref.Segment].Has(ref.Text)
		})
		if !ok {
			continue
		}
		crowd = append(crowd, ref)
		span := segments.Span(t.documents[number])
		if slices.ContainsFunc(hits, func(h retrieval.Hit) bool {
			return h.At.Segment == span.Segment && h.At.Text >= span.First && h.At.Text < span.End
		}) {
			continue
		}
		if only == nil {
			only = make([]bm25.Bitmap, len(segments))
		}
		only[span.Segment].AddRange(span.First, span.End)
	}
	return crowd, only
}

const (
	// leastWords is the number of words of the question that a version has to contain, and
	// leastShare the part of them, to be an answer although its words are common.
	leastWords = 2
	leastShare = 0.6
)

// answers reports whether one of some versions of a document contains most words of the question.
// Their words are not rare, since the other versions have them, too: the floor says nothing there. A
// number that the text lacks may name the version; then one other word is enough.
func (e *extent) answers(terms []bm25.Term, crowd []bm25.Ref) bool {
	return slices.ContainsFunc(crowd, func(ref bm25.Ref) bool {
		with, of, least := 0, 0, leastWords
		for _, t := range terms {
			_, conversational := analysis.Topicality(t.Text)
			switch has := e.content.index.Has(ref, t.Text); {
			case has && !conversational:
				with, of = with+1, of+1
			case !has && strings.ContainsAny(t.Text, "0123456789"):
				least = 1
			case !conversational:
				of++
			}
		}
		return with >= least && float64(with) >= leastShare*float64(of)
	})
}

// include replaces the last hits by others.
func (f *found) include(others *found) {
	n := min(len(others.hits), len(f.hits))
	at := len(f.hits) - n
	order := make([]int, len(f.hits))
	for i := range order {
		order[i] = i
	}
	hits, arms := append(slices.Clone(f.hits[:at]), others.hits[:n]...), []hitScores(nil)
	if f.arms != nil {
		arms = slices.Clone(f.arms[:at])
		for i := range n {
			arms = append(arms, others.by(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case hits[a].Score > hits[b].Score:
			return -1
		case hits[a].Score < hits[b].Score:
			return 1
		}
		return 0
	})
	for i, from := range order {
		f.hits[i] = hits[from]
		if arms != nil {
			f.arms[i] = arms[from]
		}
	}
}
