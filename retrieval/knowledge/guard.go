package knowledge

import "sidenote/retrieval/knowledge/index/bm25"

// Guard calls f, which reads the segments of c; c may be nil. If a mapped file is truncated
// meanwhile, Guard returns an error and reports the damage.
func (c *Content) Guard(f func() error) error {
	err := bm25.GuardMapped(f)
	if err == nil || c == nil {
		return err
	}
	if damage := c.segments.Fault(err); damage != nil {
		c.tell(damage)
		return damage
	}
	return err
}
