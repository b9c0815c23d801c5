package tokens

import "strings"

// Sum returns Count of the concatenation of parts: exactly that of an Encoding
// if the concatenation is UTF-8, an upper bound where exact is false.
//
// Parts that meet at a seam (the left one ends with a single line feed, the
// right one begins with anything but white space or a slash, and the like) are
// counted as they are, so that their counts can be remembered. Elsewhere what
// stands around the join is counted together.
func Sum(c Counter, parts ...string) (n int, exact bool) {
	s := sum{counter: c, exact: true}
	for _, p := range parts {
		s.add(p)
	}
	return s.end()
}

// Delta returns Count(old+added…) - Count(old): what old grows by, in rare cases
// a negative number. It looks at the last few words of old only, however long
// that is. Where exact is false it is an upper bound.
func Delta(c Counter, old string, added ...string) (n int, exact bool) {
	for len(added) > 0 && added[0] == "" {
		added = added[1:]
	}
	if len(added) == 0 {
		return 0, true
	}
	if meet(old, added[0]) {
		return Sum(c, added...)
	}
	tail := old[lastSeam(old):]
	after := sum{counter: c, exact: true, open: tail}
	for _, p := range added {
		after.add(p)
	}
	return after.less(sum{counter: c, exact: true, open: tail}, len(tail))
}

// Between returns Count(left+mid+right) - Count(left+right): what a text grows by
// when mid is put inside it, in rare cases a negative number. It looks at a few
// words of left and right only. Where exact is false it is an upper bound.
func Between(c Counter, left, mid, right string) (n int, exact bool) {
	if mid == "" {
		return 0, true
	}
	tail, head := left[lastSeam(left):], right[:firstSeam(right)]
	if meet(left, right) {
		if meet(left, mid) {
			tail = ""
		}
		if meet(mid, right) {
			head = ""
		}
	}
	before := sum{counter: c, exact: true, open: tail}
	before.add(head)
	after := sum{counter: c, exact: true, open: tail}
	after.add(mid)
	after.add(head)
	return after.less(before, len(tail)+len(head))
}

// A sum counts a text that comes in parts. However many they are, no byte is
// looked at or copied more than a few times: parts without a seam are what
// somebody sends who wants them to be.
type sum struct {
	counter Counter
	n       int
	exact   bool
	open    string           // from the last cut on: not counted yet
	free    int              // no cut is in so many bytes of open
	joined  *strings.Builder // holds open at its end; nil when open is not of joined parts, or is short
}

func (s *sum) add(part string) {
	if part == "" {
		return
	}
	if s.open != "" && !meet(s.open, part) {
		tail, bare := lastSeamBehind(s.open, s.free)
		s.count(s.open[:tail])
		s.free = 0
		if bare { // what follows may make a cut of its last byte
			s.free = max(len(s.open)-tail-2, 0)
		}
		head := firstSeam(part)
		s.join(s.open[tail:], part[:head])
		if part = part[head:]; part == "" {
			return
		}
	}
	s.count(s.open)
	s.open, s.free, s.joined = part, 0, nil
}

// join makes tail, which open ends with, and head the open text.
func (s *sum) join(tail, head string) {
	const short = 128 // copied sooner than managed
	if s.joined == nil {
		if len(tail) < short {
			s.open = tail + head
			return
		}
		s.joined = new(strings.Builder)
		s.joined.WriteString(tail)
	}
	s.joined.WriteString(head)
	all := s.joined.String()
	s.open = all[len(all)-len(tail)-len(head):]
}

func (s *sum) count(text string) {
	if text == "" {
		return
	}
	n, exact := s.counter.Count(text)
	s.n += n
	s.exact = s.exact && exact
}

func (s *sum) end() (n int, exact bool) {
	s.count(s.open)
	s.open = ""
	return s.n, s.exact
}

// less returns the difference of two sums; before's text has size bytes. Where
// before is not exact the least that size bytes can cost is taken off instead.
func (s *sum) less(before sum, size int) (n int, exact bool) {
	after, exactAfter := s.end()
	least, exactBefore := before.end()
	if !exactBefore {
		least = (size + maxToken - 1) / maxToken
	}
	return after - least, exactAfter && exactBefore
}
