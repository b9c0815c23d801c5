package retrieval

import (
	"iter"
	"slices"
)

const (
	// leastCrowd is the number of versions that crowd the newest one out of the candidates.
	leastCrowd = 8
	// leastVersions is the number of versions from which a Timeline knows a document.
	leastVersions = 3
	// crowdPart is the divisor for the part of a base from which versions of a document make its
	// words common.
	crowdPart = 4
)

// A Timeline knows the newest versions of documents that have many. What documents say they supersede
// is not part of it.
type Timeline struct {
	stems, titles map[documentKey][]version // newest first
	documents     int
}

// A version is a document of a Timeline.
type version struct {
	number int
	dossier
}

// NewTimeline returns the Timeline of documents, which are numbered in the order of their labels.
// Documents of different bases are no versions of one another. labels is read twice.
func NewTimeline(labels iter.Seq2[string, Label]) *Timeline {
	t := &Timeline{stems: map[documentKey][]version{}, titles: map[documentKey][]version{}}
	letters := map[uint64]bool{} // of stems
	add := func(sets map[documentKey][]version, key documentKey, number int, e *edition) {
		if key.name != "" {
			sets[key] = append(sets[key], version{number, dossier{edition: e, place: placeInTime{moment: e.time, state: e.state, modified: e.modified}}})
		}
	}
	number := 0
	for base, label := range labels {
		if MaybeEdition(label) {
			switch e := editionOf(label); {
			case e.says && e.named && e.stem != "":
				add(t.stems, documentKey{base, e.stem}, number, e)
				letters[hashOfLetters(e.stem)] = true
			case e.says:
				add(t.titles, documentKey{base, e.title}, number, e)
			}
		}
		number++
	}
	t.documents, number = number, 0
	for base, label := range labels {
		if letters[hashOfLetters(stemOf(string(label.Doc)))] {
			e := editionOf(label)
			if _, ok := t.stems[documentKey{base, e.stem}]; ok && !e.named {
				add(t.stems, documentKey{base, e.stem}, number, e)
			}
		}
		number++
	}
	for _, sets := range []map[documentKey][]version{t.stems, t.titles} {
		for key, set := range sets {
			if len(set) < leastVersions {
				delete(sets, key)
				continue
			}
			all := make([]*dossier, len(set))
			for i := range set {
				all[i] = &set[i].dossier
			}
			setCurrent(all)
			slices.SortStableFunc(set, func(a, b version) int { return b.place.order(&a.place) })
		}
	}
	return t
}

// Newest returns the number of the newest version of a document among those that are allowed; false
// if none is newer than others, or the Timeline does not know the document.
func (t *Timeline) Newest(base string, label Label, allowed func(number int) bool) (number int, ok bool) {
	e := editionOf(label)
	set := t.stems[documentKey{base, e.stem}]
	if len(set) == 0 {
		set = t.titles[documentKey{base, e.title}]
	}
	for _, v := range set {
		if allowed(v.number) {
			return v.number, true
		}
	}
	return 0, false
}

// Common yields the numbers of the documents whose words are common because their versions are a
// quarter of all documents.
func (t *Timeline) Common() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, sets := range []map[documentKey][]version{t.stems, t.titles} {
			for _, set := range sets {
				if crowdPart*len(set) < t.documents {
					continue
				}
				for _, v := range set {
					if !yield(v.number) {
						return
					}
				}
			}
		}
	}
}

// Crowded returns the indices of hits, best first, whose texts are near to so many others that further
// ones like them may be missing: a quarter of a full list. It looks at a few.
func Crowded(hits []Hit) (list []int) {
	for _, i := range [...]int{0, len(hits) / 4, len(hits) / 2} {
		n := 0
		for j := range hits {
			if !hits[i].Glance.RulesOut(hits[j].Glance) {
				n++
			}
		}
		if n >= leastCrowd && 4*n >= len(hits) {
			list = append(list, i)
		}
	}
	return slices.Compact(list)
}
