package answer

// Forget makes l read the next event as if none had been alike.
func Forget(l *Loop) { l.now.form = nil }
