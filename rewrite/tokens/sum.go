package tokens

import "strings"

// Sum returns the Count of all parts put together. It is exact for an Encoding if the
// whole is UTF-8, and an upper bound where exact is false.
//
// Parts that meet at a seam (such as a single line feed at the end of the left one, and
// neither white space nor a slash at the start of the right one) are counted as they
// are, so that their counts can be remembered. Elsewhere the text around the join is
// counted together.
func Sum(c Counter, parts ...string) (n int, exact bool) {
	s := sum{counter: c, exact: true}
	for _, p := range parts {
		s.add(p)
	}
	return s.end()
}

// Delta returns Count(old+added…) - Count(old): by how much old grows, in rare cases a
// negative number. It reads only the last few words of old, however long that is. Where
// exact is false it is an upper bound.
func Delta(c Counter, old string, added ...string) (n int, exact bool) {
	for len(added) > 0 && added[0] == "" {
		added = added[1:]
	}
	if len(added) == 0 {
		return 0, true
	}
	if meetAtSeam(old, added[0]) {
		return Sum(c, added...)
	}
	tail := old[lastSeam(old):]
	after := sum{counter: c, exact: true, pending: tail}
	for _, p := range added {
		after.add(p)
	}
	return after.less(sum{counter: c, exact: true, pending: tail}, len(tail))
}

// Between returns Count(left+mid+right) - Count(left+right): by how much a text grows
// when mid is inserted, in rare cases a negative number. It reads only a few words of
// left and right. Where exact is false it is an upper bound.
func Between(c Counter, left, mid, right string) (n int, exact bool) {
	if mid == "" {
		return 0, true
	}
	tail, head := left[lastSeam(left):], right[:firstSeam(right)]
	if meetAtSeam(left, right) {
		if meetAtSeam(left, mid) {
			tail = ""
		}
		if meetAtSeam(mid, right) {
			head = ""
		}
	}
	before := sum{counter: c, exact: true, pending: tail}
	before.add(head)
	after := sum{counter: c, exact: true, pending: tail}
	after.add(mid)
	after.add(head)
	return after.less(before, len(tail)+len(head))
}

// A sum counts a text that comes in parts. However many parts there are, no byte is
// read or copied more than a few times: an attacker may send many parts without a seam.
type sum struct {
	counter    Counter
	n          int
	exact      bool
	pending    string           // the text from the last cut on, not counted yet
	uncuttable int              // the first so many bytes of pending are known to have no cut
	joined     *strings.Builder // its last bytes are pending; nil if pending was not joined, or is short
}

func (s *sum) add(part string) {
	if part == "" {
		return
	}
	if s.pending != "" && !meetAtSeam(s.pending, part) {
		tail, bare := lastSeamBehind(s.pending, s.uncuttable)
		s.count(s.pending[:tail])
		s.uncuttable = 0
		if bare { // a cut at the last byte may depend on what follows
			s.uncuttable = max(len(s.pending)-tail-2, 0)
		}
		head := firstSeam(part)
		s.join(s.pending[tail:], part[:head])
		if part = part[head:]; part == "" {
			return
		}
	}
	s.count(s.pending)
	s.pending, s.uncuttable, s.joined = part, 0, nil
}

// join makes tail, the end of pending, and head the new pending text.
func (s *sum) join(tail, head string) {
	const short = 128 // copying so little is faster than a Builder
	if s.joined == nil {
		if len(tail) < short {
			s.pending = tail + head
			return
		}
		s.joined = new(strings.Builder)
		s.joined.WriteString(tail)
	}
	s.joined.WriteString(head)
	all := s.joined.String()
	s.pending = all[len(all)-len(tail)-len(head):]
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
	s.count(s.pending)
	s.pending = ""
	return s.n, s.exact
}

// less returns the difference of two sums; the text of before has size bytes. If before
// is not exact, the least tokens that size bytes can have are subtracted instead.
func (s *sum) less(before sum, size int) (n int, exact bool) {
	after, exactAfter := s.end()
	least, exactBefore := before.end()
	if !exactBefore {
		least = (size + maxToken - 1) / maxToken
	}
	return after - least, exactAfter && exactBefore
}
