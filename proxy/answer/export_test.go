package answer

// Forget disables the fast path for the next event.
func Forget(l *Loop) { l.now.form = nil }
