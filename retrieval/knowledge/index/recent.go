package index

import (
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// An identity tells a Segment from all others without holding on to it, as to a mapped file that
// is no longer in use.
type identity struct{ _ byte } // of a size, so that each has an address of its own

// RecentTexts are texts with their neighbours, as they were read lately: new questions mostly find
// what others found. One that is remembered is not copied out of its image again; it is checked
// there, so that damage shows. The zero RecentTexts is empty and ready for use.
type RecentTexts struct{ table retrieval.Recent[recentText] }

type recentText struct {
	textKey
	before, text, after string
}

type textKey struct {
	of   *identity
	text int
}

// maxRecentText is the most bytes of a text with its neighbours that are remembered: at most
// 8 MiB are, and of texts of usual length some 1.5.
const maxRecentText = 16 << 10

// Around is Segments.Around; r may be nil.
func (r *RecentTexts) Around(s Segments, ref bm25.Ref) (before, text, after string, err error) {
	if r == nil {
		return s.Around(ref)
	}
	seg := s[ref.Segment].Segment
	key := textKey{seg.identity, ref.Text}
	hash := retrieval.Hash(key)
	if t := r.table.At(hash); t != nil && t.textKey == key {
		from, to := ref.Text, ref.Text+1
		if t.before != "" {
			from--
		}
		if t.after != "" {
			to++
		}
		return t.before, t.text, t.after, seg.check(from, to)
	}
	before, text, after, err = s.Around(ref)
	if err == nil && len(before)+len(text)+len(after) <= maxRecentText {
		r.table.Put(hash, &recentText{key, before, text, after})
	}
	return before, text, after, err
}
