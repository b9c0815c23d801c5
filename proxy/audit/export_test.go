package audit

// Tear makes f as after a line that was written in part.
func Tear(f *File) { f.torn = true }
