package cache

// Seal puts any body into an intact envelope, for testing what reads bodies.
func Seal(k Key, body []byte) []byte {
	b, bodyAt := seal(k, len(body))
	return finish(append(b, body...), bodyAt)
}

// Body returns what is in the envelope of value.
func Body(k Key, value []byte) ([]byte, error) { return open(k, value) }

// Resum gives a value that was tampered with the checksum of an honest one.
func Resum(value []byte) []byte {
	b := append([]byte(nil), value[:len(value)-sumSize]...)
	return appendSum(b)
}
