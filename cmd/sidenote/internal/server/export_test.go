package server

import "time"

// SetClock sets the time that a Maker goes by.
func SetClock(m *VectorMaker, now func() time.Time) { m.now = now }
