//go:build race

package child

// shadows is by how much the race detector multiplies the address space of this process.
const shadows = 2

// environment returns the environment of a child. Without it the race detector waits for
// a second at the end.
func environment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
