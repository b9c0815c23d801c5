package answer

import (
	"iter"
	"strings"
)

const (
	maxMarker = 64  // maximal length of a marker in bytes
	maxID     = 999 // larger numbers in brackets are usually years and the like
)

// The wide brackets used in Chinese and Japanese answers.
const (
	wideOpen  = "【"
	wideClose = "】"
)

// A reading is the state of the marker parser.
type reading byte

const (
	noMarker     reading = iota // not in a marker
	openingWide                 // in wideOpen
	beforeID                    // after a bracket or comma, and spaces
	inID                        // in the digits of an id
	behindID                    // in spaces after an id
	closingWide                 // in wideClose
	wholeMarker                 // complete, in square brackets; the next byte tells whether it is a link
	wholeWide                   // complete, in wide brackets
	neverStarted                // before the first byte
)

// A candidate is text that may become a marker.
type candidate struct {
	reading reading
	wide    bool
	bytes   []spot
	ids     []id
}

// An id is an id in a marker and the range of its digits.
type id struct{ number, from, to int }

// begin reads the first byte of a marker; it returns false if a marker cannot start with it.
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

// add reads the next byte. If that cannot be part of a marker it is not consumed, and add returns
// false and resets reading to noMarker.
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

// without returns the ranges of bytes to remove when some ids are removed: the whole marker, or
// these ids with one separator each.
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
	behind := false // an earlier id is kept
	for i, id := range k.ids {
		switch {
		case !gone(id.number):
			behind = true
		case behind: // with the separator before it
			remove = append(remove, [2]int{k.ids[i-1].to, id.to})
		default: // with the separator after it
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

// markersIn yields everything in a text that looks like a marker, also in code and links.
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

// PromptMarkers maps ids to the texts before their markers in parts of the prompt that the model
// did not write. An id that was never given but is in it refers to those markers, and any marker
// after the same words is a quote.
type PromptMarkers map[int][]string

const (
	maxOwn      = 1000 // limit on ids
	contextSize = 12   // bytes before a marker that identify a quote
	leastQuote  = 8    // shorter texts do not count as quotes
)

// Add adds the markers in a text.
func (o *PromptMarkers) Add(text string) {
	for m := range markersIn(text) {
		if len(*o) >= maxOwn {
			return
		}
		if *o == nil {
			*o = PromptMarkers{}
		}
		before := text[max(0, m.from-contextSize):m.from]
		for _, id := range m.ids {
			if list := (*o)[id.number]; len(list) < maxOwn/10 {
				(*o)[id.number] = append(list, before)
			}
		}
	}
}

// quotes reports whether a marker with this id after the text said is a quote.
func (o PromptMarkers) quotes(id int, said string) bool {
	for _, before := range o[id] {
		if len(before) >= leastQuote && strings.HasSuffix(said, before) {
			return true
		}
	}
	return false
}
