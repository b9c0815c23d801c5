package store

import "context"

// Path returns the database's file, Memory if there is none.
func (s *Store) Path() string { return s.path }

// Documents returns at most limit documents of a base, by id, from the first that
// comes after a given one; "" is before all. They are without their chunks.
// The error is ErrNotFound if there is no such base.
func (s *Store) Documents(ctx context.Context, base, after string, limit int) ([]Entry, error) {
	b, err := s.base(ctx, s.readers, base)
	if err != nil {
		return nil, s.wrap("list documents of knowledge "+base, err)
	}
	list, err := query(ctx, s.readers, s.scanEntry, selectDocument+"WHERE d.base = ? AND d.id > ? ORDER BY d.id LIMIT ?", b.row, after, limit)
	return list, s.wrap("list documents of knowledge "+base, err)
}

// Schema returns the steps of the schema.
func Schema() []string { return schema() }

// WithSchema is o with another schema.
func WithSchema(o Options, steps []string) Options {
	o.steps = steps
	return o
}

// Before is o with f told of each step that changes the folder, before it.
func Before(o Options, f func(step string)) Options {
	o.Before = f
	return o
}
