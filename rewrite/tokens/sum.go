package tokens

import "strings"

// Sum returns the Count of all parts put together. For an Encoding it is exact if the whole is
// UTF-8; it is an upper bound if exact is false.
//
// Parts that meet at a seam (such as a single line feed at the end of the left one, and neither
// white space nor a slash at the start of the right one) are counted as they are, so that their
// counts can be cached. Elsewhere the text around the join is counted together.
func Sum(c Counter, parts ...string) (n int, exact bool) {
	s := sum{counter: c, exact: true}
	for _, p := range parts {
		s.add(p, 0)
	}
	return s.end()
}

// Delta returns Count(old+added…) - Count(old), the tokens by which old grows; in rare cases it
// is negative. It reads only the last few words of old, however long that is. It is an upper
// bound if exact is false.
func Delta(c Counter, old string, added ...string) (n int, exact bool) {
	g := Growing(c, old)
	for _, p := range added {
		g.Add(p, 0)
	}
	return g.End()
}

// A Growth is an incremental Delta for parts whose counts may be known.
type Growth struct {
	old  string // the text that grows; "" after the first part
	tail string // the end of the old text that is counted together with what follows
	sum
}

// Growing returns a Growth of the text old.
func Growing(c Counter, old string) Growth {
	return Growth{old: old, sum: sum{counter: c, exact: true}}
}

// Add appends text. tokens is its exact count by itself, or 0 if unknown; of a text with a known
// count only the words at its ends are read.
func (g *Growth) Add(text string, tokens int) {
	if text != "" && g.old != "" {
		if !meetAtSeam(g.old, text) {
			g.tail = g.old[lastSeam(g.old):]
		}
		g.old, g.pending = "", g.tail
	}
	g.add(text, tokens)
}

// End returns the tokens by which the text has grown. Add must not be called afterwards.
func (g *Growth) End() (n int, exact bool) {
	if g.old != "" { // nothing was added
		return 0, true
	}
	return g.less(sum{counter: g.counter, exact: true, pending: g.tail}, len(g.tail))
}

// Between returns Count(left+mid+right) - Count(left+right), the tokens by which a text grows
// when mid is inserted; in rare cases it is negative. It reads only a few words of left and
// right. It is an upper bound if exact is false.
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
	before.add(head, 0)
	after := sum{counter: c, exact: true, pending: tail}
	after.add(mid, 0)
	after.add(head, 0)
	return after.less(before, len(tail)+len(head))
}

// A sum counts a text that comes in parts. However many parts there are, no byte is read or
// copied more than a few times: an attacker may send many parts without a seam.
type sum struct {
	counter    Counter
	n          int
	exact      bool
	pending    string           // the text since the last cut, not counted yet
	known      int              // its exact token count; 0 if unknown
	uncuttable int              // number of leading bytes of pending that are known to have no cut
	joined     *strings.Builder // ends with pending; nil if pending was not joined, or is short
}

// add appends a part. known is its exact token count by itself, or 0.
func (s *sum) add(part string, known int) {
	if part == "" {
		return
	}
	if s.pending != "" && !meetAtSeam(s.pending, part) {
		tail, bare := lastSeamBehind(s.pending, s.uncuttable)
		if tail > 0 {
			s.count(s.pending[:tail], s.without(s.known, s.pending[tail:]))
		}
		s.uncuttable, s.known = 0, 0
		if bare { // a cut at the last byte may depend on what follows
			s.uncuttable = max(len(s.pending)-tail-2, 0)
		}
		head := firstSeam(part)
		s.join(s.pending[tail:], part[:head])
		if head == len(part) {
			return
		}
		known, part = s.without(known, part[:head]), part[head:]
	}
	s.count(s.pending, s.known)
	s.pending, s.known, s.uncuttable, s.joined = part, known, 0, nil
}

// without returns the tokens of a text after removing part, which begins or ends at a cut. known
// is the count of the whole text; if it is 0, so is the result.
func (s *sum) without(known int, part string) int {
	if known == 0 || part == "" {
		return known
	}
	less, exact := s.counter.Count(part)
	if !exact {
		return 0
	}
	return max(known-less, 0)
}

// join makes tail, the end of pending, and head the new pending text.
func (s *sum) join(tail, head string) {
	const short = 128 // copying this little is faster than a Builder
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

func (s *sum) count(text string, known int) {
	if text == "" || known > 0 {
		s.n += known
		return
	}
	n, exact := s.counter.Count(text)
	s.n += n
	s.exact = s.exact && exact
}

func (s *sum) end() (n int, exact bool) {
	s.count(s.pending, s.known)
	s.pending, s.known = "", 0
	return s.n, s.exact
}

// less returns the difference of two sums; the text of before has size bytes. If before is not
// exact, the least number of tokens that size bytes can have is subtracted instead.
func (s *sum) less(before sum, size int) (n int, exact bool) {
	after, exactAfter := s.end()
	least, exactBefore := before.end()
	if !exactBefore {
		least = (size + maxToken - 1) / maxToken
	}
	return after - least, exactAfter && exactBefore
}
