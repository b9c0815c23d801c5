package library

import "sidenote/retrieval/knowledge/store"

// VectorsOf returns the vectors that are kept in the folder that is open now, whichever base their
// texts are in.
func VectorsOf(l *Library) store.Vectors { return store.VectorsOf(l.truth()) }
