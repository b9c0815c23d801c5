//go:build !race

package child

// shadows is how much more address space this process takes for each byte.
const shadows = 1

// environment is that of a child: none.
func environment() []string { return []string{} }
