package cache

import "sidenote/retrieval"

// NewKey returns the key for the result of q.
func NewKey(kind Kind, q retrieval.Query) Key {
	return digestKey(kind, q.Tenant, appendQuery(nil, kind, &q))
}

// Resum gives a changed value a valid checksum.
func Resum(value []byte) []byte {
	b := append([]byte(nil), value[:len(value)-sumSize]...)
	return appendSum(b)
}
