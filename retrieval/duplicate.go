package retrieval

// DuplicateOf tells whether a candidate fell because s, a candidate too, says the same.
func (x Excluded) DuplicateOf(s Source) bool {
	return x.Reason == ExcludedDup && x.Detail == duplicateDetail(x.Knowledge, &s)
}
