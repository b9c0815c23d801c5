package replay

import (
	"cmp"
	"math"
	"slices"

	"sidenote/proxy/record"
)

// ChangeMeasure defines Outcome.Change, for people.
const ChangeMeasure = "1 - the weighted overlap of the sources: a source counts 1/log2(1 + its place); " +
	"the overlap is the sum of the smaller weights of all sources divided by the sum of the larger ones. " +
	"0: the same sources in the same order; 1: no source in common"

// A Source is a source before, now, or both. The places are those in the prompt, from 1; 0 if it was
// or is not there.
type Source struct {
	Knowledge string `json:"kb_id"`
	Doc       string `json:"doc_id"`
	Chunk     int    `json:"chunk"`
	Name      string `json:"name,omitempty"`
	Change    string `json:"change,omitempty"` // "added", "removed", "moved", "not_searched", or "" for none
	Before    int    `json:"before"`
	Now       int    `json:"now"`
}

// The changes of sources. A source of a base that the policy does not have was not searched.
const (
	added       = "added"
	removed     = "removed"
	moved       = "moved"
	notSearched = "not_searched"
)

// A place identifies a source.
type place struct {
	knowledge, doc string
	chunk          int
}

func placeOf(s *record.Source) place { return place{s.Knowledge, s.Doc, s.Chunk} }

// align returns the sources of both lists, those of now first. searched are the bases of the policy.
// Of a source that is in a list twice the first entry counts.
func align(before, now []record.Source, searched []string) []Source {
	index := make(map[place]int, len(before)+len(now))
	var all []Source
	entry := func(s *record.Source) *Source {
		at, ok := index[placeOf(s)]
		if !ok {
			at = len(all)
			index[placeOf(s)] = at
			all = append(all, Source{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name})
		}
		return &all[at]
	}
	for i := range now {
		s := entry(&now[i])
		s.Now = cmp.Or(s.Now, i+1)
	}
	for i := range before {
		s := entry(&before[i])
		s.Before = cmp.Or(s.Before, i+1)
	}
	for i := range all {
		s := &all[i]
		switch {
		case s.Before == 0:
			s.Change = added
		case s.Now == 0 && !slices.Contains(searched, s.Knowledge):
			s.Change = notSearched
		case s.Now == 0:
			s.Change = removed
		case s.Before != s.Now:
			s.Change = moved
		}
	}
	return all
}

// changeOf returns how much the sources changed, see ChangeMeasure. It is the distance of Ruzicka
// between the discounts that the nDCG of Järvelin and Kekäläinen (2002) gives to ranks.
func changeOf(sources []Source) float64 {
	var least, most float64
	for i := range sources {
		a, b := weight(sources[i].Before), weight(sources[i].Now)
		least, most = least+min(a, b), most+max(a, b)
	}
	if most == 0 || least == most {
		return 0
	}
	return 1 - least/most
}

// weight returns the weight of a source at a place; 0 if it is not there.
func weight(place int) float64 {
	if place == 0 {
		return 0
	}
	return 1 / math.Log2(1+float64(place))
}
