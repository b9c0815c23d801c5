//go:build race

package child

// shadows is how much more address space this process takes for each byte: the
// race detector remembers who used it.
const shadows = 2

// environment is that of a child. The race detector would else wait for a second
// at its end.
func environment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
