package index

import (
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// An identity identifies a Segment without keeping it, and thus a mapped file, alive.
type identity struct{ _ byte } // not empty, so that each has its own address

// RecentTexts is a cache of texts with their neighbours: new questions mostly find what others
// found. A cached text is not copied from its image again, but still checked there, so that damage
// is noticed. The zero RecentTexts is empty and ready for use.
type RecentTexts struct{ table retrieval.Recent[recentText] }

type recentText struct {
	textKey
	before, text, after string
}

type textKey struct {
	of   *identity
	text int
}

// maxRecentText is the size limit of a cached text with its neighbours. The cache takes at most 8
// MiB, typically about 1.5.
const maxRecentText = 16 << 10

// Around is Segments.Around with a cache; r may be nil.
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
