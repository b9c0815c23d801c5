package knowledge

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A base may have more versions of a document than a search finds, all of which score alike. Which
// of them is the newest is then read from the labels of all documents, once for each Content.

// leastNewest is the number of texts of newest versions that are added to what was found.
const leastNewest = 8

// A timeline is the versions of the documents in a Content.
type timeline struct {
	once      sync.Once
	of        *retrieval.Timeline
	documents []bm25.Ref    // the first text of each, by number
	common    []bm25.Bitmap // by segment: the texts of documents whose words their versions make common
}

// timeline returns the versions of the documents.
func (e *extent) timeline() *timeline {
	t := &e.content.timeline
	t.once.Do(func() {
		segments := e.content.segments
		var labels iter.Seq2[string, retrieval.Label] = func(yield func(string, retrieval.Label) bool) {
			for _, ref := range t.documents {
				if !yield(strconv.Itoa(e.base(ref)), segments.Label(ref)) {
					return
				}
			}
		}
		for d := range segments.InOrder() {
			for ref := range segments.Texts(d) {
				t.documents = append(t.documents, ref)
				break
			}
		}
		t.of, t.common = retrieval.NewTimeline(labels), make([]bm25.Bitmap, len(segments))
		for number := range t.of.Common() {
			span := segments.Span(t.documents[number])
			t.common[span.Segment].AddRange(span.First, span.End)
		}
	})
	return t
}

// smallBase is the number of documents up to which versions of one are likely to be many of them.
const smallBase = 1000

// newest returns those hits that are versions of documents of which hits, at most k, may lack some,
// and the texts of the newest versions that they lack; nil if they lack none.
func (e *extent) newest(hits []retrieval.Hit, k int, allowed []bm25.Bitmap) (crowd []bm25.Ref, only []bm25.Bitmap) {
	for _, h := range hits[:min(len(hits), witnesses)] {
		if ref := refOf(h.At); !h.Undated && e.content.documents <= smallBase && e.timeline().common[ref.Segment].Has(ref.Text) {
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
		t, ref := e.timeline(), refOf(hits[i].At)
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
