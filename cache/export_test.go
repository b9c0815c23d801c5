package cache

// Resum gives a value that was tampered with the checksum of an honest one.
func Resum(value []byte) []byte {
	b := append([]byte(nil), value[:len(value)-sumSize]...)
	return appendSum(b)
}
