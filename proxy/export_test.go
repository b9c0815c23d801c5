package proxy

// TooLong shows what is made of an upstream's error answer.
func TooLong(status int, body []byte) (limit, requested int, ok bool) {
	t, ok := tooLong(status, body)
	return t.limit, t.requested, ok
}

// Learning tells whether s still looks at what was billed for requests that ended.
func Learning(s *Server) bool { return len(s.learners) > 0 }
