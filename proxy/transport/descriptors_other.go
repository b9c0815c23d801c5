//go:build !unix

package transport

import "math"

// descriptorLimit is how many files and connections this process may have open.
func descriptorLimit() int { return math.MaxInt32 }
