package knowledge

import (
	"context"
	"sync"
	"time"
)

// measuring is about how long one processor needs per text to measure a floor.
const measuring = 4 * time.Microsecond

// A union is the contents of several bases, searched as one. Its floor is measured in the
// background; until then, the floor of the most similar content is used.
type union struct {
	holders []baseSnapshot         // by id
	texts   int                    // total
	extent  func() (extent, error) // joins the bases once, in 3 ns per text

	measured chan struct{} // closed when the measurement has ended
	floor    floor         // measured; valid if right
	right    bool
	standIn  floor

	life context.Context // ends when the union is not used any more
	end  context.CancelFunc

	asked bool   // whether a search used it; guarded by Group.mu
	last  uint64 // Group.uses at its last use; guarded by Group.mu
}

// newUnion returns the union of some bases. before, unless nil, is the union of the same bases
// before one of them changed.
func newUnion(holders []baseSnapshot, before *union) *union {
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

// measure measures the floor. It ends early with ctx and if a base is damaged; a search will find
// and report that damage.
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

// nearest returns the measured floor, or until then the stand-in.
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

// await waits at most for the given time until the floor is measured, and reports whether it is.
// It does not wait if the time would not suffice.
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

// probesOf returns the probes of bases, which are the same for all bases with vectors.
func probesOf(holders []baseSnapshot) [][]float32 {
	for _, h := range holders {
		if probes := h.content.options.Probes; len(probes) > 0 {
			return probes
		}
	}
	return nil
}
