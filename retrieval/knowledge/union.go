package knowledge

import (
	"context"
	"sync"
	"time"
)

// measuring is about what it takes of one processor to measure a floor, for each text.
const measuring = 4 * time.Microsecond

// A union is the contents of several bases, searched as one. The least score of its answers
// is measured in the background: until then the floor of what is most like it stands in.
type union struct {
	holders []holder               // by id
	texts   int                    // of all of them
	extent  func() (extent, error) // joins them once, which takes 3 ns a text

	measured chan struct{} // closed when measuring has ended
	floor    floor         // what was measured; valid if right
	right    bool
	standIn  floor

	life context.Context // ends when nobody asks for the union any more
	end  context.CancelFunc

	asked bool   // guarded by the Group's mu: a search has asked for it
	last  uint64 // likewise: when it was last in use
}

// newUnion returns the union of some bases. before, unless nil, is what was searched of the
// same bases before one of them changed.
func newUnion(holders []holder, before *union) *union {
	u := &union{holders: holders, measured: make(chan struct{})}
	u.extent = sync.OnceValues(func() (extent, error) { return join(holders) })
	u.life, u.end = context.WithCancel(context.Background())
	largest := holders[0].content
	for _, h := range holders {
		u.texts += h.content.Chunks()
		if h.content.Chunks() > largest.Chunks() {
			largest = h.content
		}
	}
	if u.standIn = largest.floor; before != nil {
		u.standIn = before.nearest()
	}
	return u
}

// measure finds the floor. It ends early with ctx, and where the union is damaged: then a
// search will meet that, too, and report it.
func (u *union) measure(ctx context.Context) {
	defer close(u.measured)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.life, cancel)()
	if u.life.Err() != nil {
		return
	}
	e, err := u.extent()
	if err != nil {
		return
	}
	err = e.content.Guard(func() error {
		var err error
		if u.floor, err = calibrate(ctx, e.content.index); err == nil && e.content.vectors != nil {
			u.floor.cosines, err = e.measureCosines(ctx, probesOf(u.holders))
		}
		return err
	})
	u.right = err == nil
}

// nearest returns the floor if it is measured, else what stands in for it.
func (u *union) nearest() floor {
	select {
	case <-u.measured:
		if u.right {
			return u.floor
		}
	default:
	}
	return u.standIn
}

// await waits for the floor to be measured, and tells whether it is: at most for a time, and
// not at all where that would not be enough.
func (u *union) await(ctx context.Context, most time.Duration) bool {
	select {
	case <-u.measured:
		return u.right
	default:
	}
	if time.Duration(u.texts)*measuring > most {
		return false
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-u.measured:
		return u.right
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// probesOf returns the probes of bases, which are the same for all that have vectors.
func probesOf(holders []holder) [][]float32 {
	for _, h := range holders {
		if probes := h.content.options.Probes; len(probes) > 0 {
			return probes
		}
	}
	return nil
}
