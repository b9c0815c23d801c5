//go:build !unix

package tcp

import "math"

// DescriptorLimit returns how many files and connections this process may have open.
func DescriptorLimit() int { return math.MaxInt32 }
