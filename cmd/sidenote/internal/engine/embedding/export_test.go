package embedding

import "time"

// SetClock sets the time that a Maker goes by.
func SetClock(m *Maker, now func() time.Time) { m.now = now }
