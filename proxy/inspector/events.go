package inspector

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/transport"
)

const (
	eventsPause = 250 * time.Millisecond // minimum time between two events
	eventsRest  = time.Second            // after an event that dropped rows: nobody reads faster, and rows cost time
	eventsBeat  = 10 * time.Second       // interval of keep-alive comments
	eventsLast  = 15 * time.Minute       // then the browser reconnects, and its session is checked again
	maxEvent    = 25                     // rows in one event
)

// eventsPath returns the URL of the events for requests numbered from and above.
func eventsPath(f filterInspector, from uint64) string {
	path := requestsPath + "/events?from=" + strconv.FormatUint(from, 10)
	if q := f.query(); q != "" {
		path += "&" + q
	}
	return path
}

// events sends rows of the list as server-sent events when requests end: "rows" has the HTML of
// new rows, newest first, and "lost" the number of requests that came too fast to be shown. The id
// of an event is the number of the next request.
func (i *Inspector) events(v *visit) error {
	ring := i.data.Requests
	if ring == nil {
		return &problem{fasthttp.StatusNotFound, "No requests are kept: explain.keep is 0."}
	}
	kept, stop, ok := ring.Subscribe()
	if !ok {
		v.Response.Header.Set("Retry-After", "10")
		return &problem{fasthttp.StatusServiceUnavailable, "Too many pages follow the requests already."}
	}
	defer stop()
	from, err := strconv.ParseUint(string(v.Request.Header.Peek("Last-Event-ID")), 10, 64)
	if err != nil { // first connection of the page
		from, _ = strconv.ParseUint(string(v.QueryArgs().Peek("from")), 10, 64)
	}
	s := &stream{inspector: i, ring: ring, filter: filterOf(v), next: from}
	lines := func(head []byte) []byte {
		head = append(head, "OK\r\nContent-Type: text/event-stream"...)
		for _, h := range headers() {
			head = append(head, "\r\n"+h[0]+": "+h[1]...)
		}
		return head
	}
	left := transport.Watch(v.RequestCtx, context.Background()).Done()
	_ = transport.Reply(v.RequestCtx, transport.ReplyHead{Status: fasthttp.StatusOK, Lines: lines, Length: -1}, func(w *transport.ReplyWriter) error {
		s.to = w
		return s.run(kept, left, v.Done())
	}) // fails when the client leaves
	return nil
}

// A stream writes events to one page.
type stream struct {
	inspector *Inspector
	ring      *explain.Ring
	filter    filterInspector
	next      uint64 // number of the first request that was not handled yet
	to        io.Writer
}

// run writes until the client has left, the process stops, or the stream is too old.
func (s *stream) run(kept, left, stopping <-chan struct{}) error {
	if _, err := io.WriteString(s.to, "retry: 2000\n\n"); err != nil {
		return err
	}
	beats := time.NewTicker(eventsBeat)
	defer beats.Stop()
	old := time.NewTimer(eventsLast)
	defer old.Stop()
	rest, err := s.write() // what ended after the page was made
	if err != nil {
		return err
	}
	pause := time.NewTimer(rest)
	defer pause.Stop()
	for wake := (<-chan struct{})(nil); ; {
		var err error
		select {
		case <-left:
			return nil
		case <-stopping:
			return nil
		case <-old.C:
			return nil
		case <-beats.C:
			_, err = io.WriteString(s.to, ": \n\n")
		case <-wake:
			wake = nil
			rest, err = s.write()
			pause.Reset(rest)
		case <-pause.C:
			wake = kept
		}
		if err != nil {
			return err
		}
	}
}

// write writes the requests that ended since the last call, and returns how long to wait after it.
func (s *stream) write() (rest time.Duration, err error) {
	rows, lost := s.rows()
	rest = eventsPause
	var b bytes.Buffer
	if lost > 0 {
		rest = eventsRest
		fmt.Fprintf(&b, "event: lost\ndata: %d\n\n", lost)
	}
	if len(rows) > 0 {
		var html bytes.Buffer
		if err := s.inspector.templates["requests.html"]().ExecuteTemplate(&html, "rows", rows); err != nil {
			return 0, fmt.Errorf("make rows: %w", err)
		}
		fmt.Fprintf(&b, "id: %d\nevent: rows\n", s.next)
		for line := range bytes.Lines(html.Bytes()) {
			b.WriteString("data: ")
			b.Write(bytes.TrimRight(line, "\r\n"))
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return rest, nil
	}
	_, err = s.to.Write(b.Bytes())
	return rest, err
}

// rows returns the requests that ended since the last call, newest first, and the number of those
// that are not shown.
func (s *stream) rows() (rows []explain.Summary, lost int) {
	first, end := s.ring.Range()
	from := s.next
	if s.next = end; from > end {
		from = first // the page is older than this process
	}
	if from < first {
		lost, from = int(first-from), first
	}
	for n := end; n > from; n-- {
		if len(rows) == maxEvent && s.filter == (filterInspector{}) {
			return rows, lost + int(n-from) // without looking at them
		}
		switch r, ok := s.ring.Summary(n - 1); {
		case !ok:
			return rows, lost + int(n-from) // overwritten by newer ones
		case !s.filter.passes(&r):
		case len(rows) == maxEvent:
			lost++
		default:
			rows = append(rows, r)
		}
	}
	return rows, lost
}
