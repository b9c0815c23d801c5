package inspector

import (
	"io"

	"sidenote/proxy/explain"
)

// WriteEvent returns a function that writes an event about all requests to a page that filters by
// status.
func WriteEvent(r *explain.Ring, text string, to io.Writer) func() error {
	i := New(Data{Requests: r}, NewSessions())
	return func() error {
		_, err := (&stream{inspector: i, ring: r, filter: filterInspector{Text: text}, to: to}).write()
		return err
	}
}
