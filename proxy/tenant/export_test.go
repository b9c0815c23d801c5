package tenant

// Cached returns the size in bytes of the tokens in v's cache, both as counted by the cache and as
// summed up one by one.
func Cached(v *Verifier) int {
	n := 0
	for _, t := range v.cache.known {
		n += t.size
	}
	if n != v.cache.size {
		return -1
	}
	return n
}

// Cache puts a token of a size into v's cache and reports whether it is there afterwards.
func Cache(v *Verifier, digest [32]byte, size int) bool {
	t := &VerifiedToken{size: size}
	v.cache.put(digest, t)
	return v.cache.get(digest) == t
}
