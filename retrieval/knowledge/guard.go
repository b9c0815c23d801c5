package knowledge

import (
	"errors"
	"fmt"

	"sidenote/retrieval/knowledge/mapped"
)

// guard calls f, which reads the shelves. Where the file of one is cut meanwhile, that
// is damage like any other.
func (c *Content) guard(f func() error) error {
	err := mapped.Guard(f)
	if damage := c.cut(err); damage != nil {
		c.tell(damage)
		return damage
	}
	return err
}

// cut returns the damage that an error is about which came of reading a mapped file;
// nil if it did not.
func (c *Content) cut(err error) error {
	fault := (*mapped.FaultError)(nil)
	if c == nil || !errors.As(err, &fault) {
		return nil
	}
	for _, s := range c.shelves {
		if s.owner != nil && s.owner.Holds(fault.Address) {
			return &shelfError{shelf: s.shelf, err: fmt.Errorf("%w: %w", errShelf, err)}
		}
	}
	return nil
}
