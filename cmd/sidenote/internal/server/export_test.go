package server

import "time"

// SetClock sets the clock of a VectorMaker.
func SetClock(m *VectorMaker, now func() time.Time) { m.now = now }
