package library

import "sidenote/retrieval/knowledge/store"

// VectorsOf returns the vectors stored in the open folder, for the texts of all bases.
func VectorsOf(l *Library) store.Vectors { return store.VectorsOf(l.currentStore()) }
