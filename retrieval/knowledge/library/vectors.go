package library

import "sidenote/retrieval/knowledge/store"

// Vectors returns the vectors that are kept in the folder that is open now, whichever base their
// texts are in.
func (l *Library) Vectors() store.Vectors { return store.VectorsOf(l.truth()) }
