package store

// Schema returns the steps of the schema.
func Schema() []string { return schema() }

// WithSchema is o with another schema.
func WithSchema(o Options, steps []string) Options {
	o.steps = steps
	return o
}

// Before is o with f told of each step that changes the folder, before it.
func Before(o Options, f func(step string)) Options {
	o.before = f
	return o
}
