package analysis

import (
	"hash/maphash"
	"sync/atomic"
)

// Recent remembers the terms of texts analysed last: everybody's questions, and
// the chunks that answer them. It is a small table without locks, in which a
// newcomer takes the place of what was there. The zero Recent is ready.
type Recent struct {
	slots [512]atomic.Pointer[analysed]
}

type analysed struct {
	text  string
	terms []string
}

// maxRecent is the longest text remembered, in bytes.
const maxRecent = 4 << 10

// recentSeed spreads texts over the table; it is made once and never changes.
var recentSeed = maphash.MakeSeed()

// Terms is the function Terms. Its slices are shared: nobody changes them.
func (r *Recent) Terms(text string) []string {
	if len(text) > maxRecent {
		return Terms(text)
	}
	slot := &r.slots[maphash.String(recentSeed, text)%uint64(len(r.slots))]
	if a := slot.Load(); a != nil && a.text == text {
		return a.terms
	}
	a := &analysed{text, Terms(text)}
	slot.Store(a)
	return a.terms
}
