package serving

import "context"

// OwnName returns a function that reports whether an event for a name may change the configuration
// of files.
func OwnName(files ...string) func(name string) bool {
	o := namesOf(files)
	return o.has
}

// CatchUp reloads the configuration until no file has changed since.
func (r *Reloader) CatchUp(ctx context.Context) (others bool) { return r.catchUp(ctx) }
