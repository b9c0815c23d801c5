package retrieval

import "slices"

// similarity is the Jaccard similarity of term sets from which the lower ranked of two chunks is a
// duplicate.
const similarity = 0.8

// termSet returns the distinct terms, sorted and never nil. It does not modify its argument, which
// an analyser may share.
func termSet(terms []string) []string {
	set := append([]string{}, terms...)
	slices.Sort(set)
	return slices.Compact(set)
}

// similarSets reports whether |a∩b| / |a∪b| reaches similarity. Empty sets are similar to nothing.
func similarSets(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	// The union is at least the larger set, the intersection at most the smaller.
	if len(a) == 0 || float64(len(a)) < similarity*float64(len(b)) {
		return false
	}
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			common++
			i, j = i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return float64(common) >= similarity*float64(len(a)+len(b)-common)
}
