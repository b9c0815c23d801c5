package store

import "context"

// Path returns the path of the database file, or Memory.
func (s *Store) Path() string { return s.path }

// Documents returns at most limit documents of a base without chunks, by id, starting after the
// given id; "" starts with the first. The error is ErrNotFound if there is no such base.
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

// WithSchema returns o with another schema.
func WithSchema(o Options, steps []string) Options {
	o.steps = steps
	return o
}

// Before returns o with a function that is called before each change of the folder.
func Before(o Options, f func(step string)) Options {
	o.Before = f
	return o
}
