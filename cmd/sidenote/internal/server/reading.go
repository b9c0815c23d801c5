package server

import (
	"cmp"
	"slices"
	"time"

	"sidenote/retrieval/knowledge/folder"
)

// A Reading is the progress of a folder that is being read, and the time it has taken.
type Reading struct {
	folder.Progress
	Took time.Duration
}

// Readings returns the folders that are being read, sorted by base.
func Readings(b *Bases) (list []Reading) {
	for _, x := range b.made.Load().indexers {
		if i := x.status(); i.running {
			list = append(list, Reading{Progress: i.progress, Took: time.Since(i.began)})
		}
	}
	slices.SortFunc(list, func(a, b Reading) int { return cmp.Compare(a.Knowledge, b.Knowledge) })
	return list
}
