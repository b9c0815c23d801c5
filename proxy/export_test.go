package proxy

// TooLong shows what is made of an upstream's error answer.
func TooLong(status int, body []byte) (limit, requested int, ok bool) {
	t, ok := tooLong(status, body)
	return t.limit, t.requested, ok
}
