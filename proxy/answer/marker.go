package answer

import (
	"iter"
	"strings"
)

const (
	maxMarker = 64  // bytes of a marker
	maxID     = 999 // larger numbers in brackets are years and the like
)

// The wide brackets, which answers in Chinese or Japanese have.
const (
	wideOpen  = "【"
	wideClose = "】"
)

// A reading says how far bytes have been read as a marker.
type reading byte

const (
	noMarker     reading = iota // they are none
	openingWide                 // a part of wideOpen
	beforeID                    // a bracket, or a comma, and spaces
	inID                        // digits
	behindID                    // spaces behind an id
	closingWide                 // a part of wideClose
	wholeMarker                 // in square brackets: the next byte tells whether it is a link
	wholeWide                   // in wide ones
	neverStarted                // no byte came
)

// A candidate is what may become a marker.
type candidate struct {
	reading reading
	wide    bool
	bytes   []spot
	ids     []id
}

// An id is one in a marker, and where its digits stand there.
type id struct{ number, from, to int }

// begin takes the first byte of a marker; false if it cannot be one.
func (k *candidate) begin(s spot) bool {
	switch s.b {
	case '[':
		k.reading, k.wide = beforeID, false
	case wideOpen[0]:
		k.reading, k.wide = openingWide, true
	default:
		return false
	}
	k.bytes, k.ids = append(k.bytes[:0], s), k.ids[:0]
	return true
}

// add takes the next byte, which stands at a spot. If it cannot be part of a marker, it is not
// taken, and the candidate is none.
func (k *candidate) add(s spot) bool {
	if len(k.bytes) == maxMarker || !k.reads(s.b) {
		k.reading = noMarker
		return false
	}
	k.bytes = append(k.bytes, s)
	return true
}

func (k *candidate) reads(b byte) bool {
	n := len(k.bytes)
	switch k.reading {
	case openingWide:
		if n == len(wideOpen)-1 {
			k.reading = beforeID
		}
		return b == wideOpen[n]
	case closingWide:
		start := len(wideClose) - 1
		if k.bytes[n-1].b == wideClose[0] {
			start = 1
		}
		if start == len(wideClose)-1 {
			k.reading = wholeWide
		}
		return b == wideClose[start]
	}
	digit := b >= '0' && b <= '9'
	switch {
	case digit && k.reading == beforeID:
		k.reading, k.ids = inID, append(k.ids, id{int(b - '0'), n, n + 1})
		return b != '0'
	case digit && k.reading == inID:
		last := &k.ids[len(k.ids)-1]
		last.number, last.to = 10*last.number+int(b-'0'), n+1
		return last.number <= maxID
	case b == ' ':
		if k.reading == inID {
			k.reading = behindID
		}
		return true
	case k.reading == beforeID:
		return false
	case b == ',' || b == ';':
		k.reading = beforeID
		return true
	case !k.wide && b == ']':
		k.reading = wholeMarker
		return true
	case k.wide && b == wideClose[0]:
		k.reading = closingWide
		return true
	}
	return false
}

// without returns which of the marker's bytes go if some of its ids do: all, or these with a
// separator each.
func (k *candidate) without(gone func(id int) bool) (remove [][2]int) {
	kept := 0
	for _, id := range k.ids {
		if !gone(id.number) {
			kept++
		}
	}
	if kept == 0 {
		return [][2]int{{0, len(k.bytes)}}
	}
	behind := false // an id stands before this one
	for i, id := range k.ids {
		switch {
		case !gone(id.number):
			behind = true
		case behind: // with the separator before it
			remove = append(remove, [2]int{k.ids[i-1].to, id.to})
		default: // with the one behind it
			remove = append(remove, [2]int{id.from, k.ids[i+1].from})
		}
	}
	return remove
}

// A found is a marker in a text.
type found struct {
	from, to int
	ids      []id
}

// markersIn yields what reads as a marker in a text, wherever it stands.
func markersIn(text string) iter.Seq[found] {
	return func(yield func(found) bool) {
		var k candidate
		for i := 0; i < len(text); {
			n := strings.IndexAny(text[i:], "["+wideOpen)
			if n < 0 {
				return
			}
			from := i + n
			i = from + 1
			k.begin(spot{b: text[from]})
			for at := i; at < len(text) && k.add(spot{b: text[at]}); at++ {
				if k.reading == wholeMarker || k.reading == wholeWide {
					if !yield(found{from, at + 1, k.ids}) {
						return
					}
					i = at + 1
					break
				}
			}
		}
	}
}

// OwnMarkers are the markers in texts that are not the model's, by id: where they stand. An answer that
// has such an id, which was never given, speaks of these; and a marker of any id behind the same
// words is a quote of them.
type OwnMarkers map[int][]string

const (
	maxOwn      = 1000 // markers
	contextSize = 12   // bytes before a marker by which a quote is known
	leastQuote  = 8    // fewer are no quote
)

// Add adds the markers of a text.
func (o *OwnMarkers) Add(text string) {
	for m := range markersIn(text) {
		if len(*o) >= maxOwn {
			return
		}
		if *o == nil {
			*o = OwnMarkers{}
		}
		before := text[max(0, m.from-contextSize):m.from]
		for _, id := range m.ids {
			if list := (*o)[id.number]; len(list) < maxOwn/10 {
				(*o)[id.number] = append(list, before)
			}
		}
	}
}

// quotes tells whether a marker of an id behind these words is a quote.
func (o OwnMarkers) quotes(id int, said string) bool {
	for _, before := range o[id] {
		if len(before) >= leastQuote && strings.HasSuffix(said, before) {
			return true
		}
	}
	return false
}
