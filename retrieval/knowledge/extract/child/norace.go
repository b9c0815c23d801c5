//go:build !race

package child

// shadows is by how much the race detector multiplies the address space of this process.
const shadows = 1

// environment returns the environment of a child: none.
func environment() []string { return []string{} }
