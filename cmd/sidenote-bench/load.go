package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A load is a number of connections to one server that all send one request.
type load struct {
	server  *server
	request []byte
	want    string // expected prefix of Sidenote-Status; "" for any
	events  int    // expected in each answer; 0: not checked
	rate    int    // requests per second; 0: as fast as they are answered
	clients []*client
	asked   *atomic.Int64 // number of questions, if each request has a new one
}

func newLoad(s *server, w work, connections int) (*load, error) {
	l := &load{server: s, request: w.request, events: w.events, rate: w.rate}
	if s.name == "sidenote" {
		l.want = w.status
	}
	if w.fresh {
		l.asked = new(atomic.Int64)
	}
	for range connections {
		c, err := dial(s.addr)
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.clients {
		c.close()
	}
}

// A round is the result of one round of load.
type round struct {
	requests int
	cpu      time.Duration // of the server's process
	took     time.Duration
}

func (r round) perRequest() float64 { return float64(r.cpu.Nanoseconds()) / 1e3 / float64(r.requests) }

// run sends requests for the given time, sequentially on each connection: as fast as they are
// answered, or at the rate.
func (l *load) run(ctx context.Context, long time.Duration) (round, error) {
	before, err := cpuOf(l.server.pid())
	if err != nil {
		return round{}, err
	}
	start := time.Now()
	var sent atomic.Int64
	var all errgroup.Group
	for i, c := range l.clients {
		all.Go(func() (err error) {
			for n := 0; err == nil && time.Since(start) < long && ctx.Err() == nil; n++ {
				if l.rate > 0 {
					due := time.Duration(n*len(l.clients)+i) * time.Second / time.Duration(l.rate)
					if due >= long {
						return nil
					}
					time.Sleep(due - time.Since(start)) // a round is short
				}
				err = l.one(c)
				sent.Add(1)
			}
			return err
		})
	}
	err = all.Wait()
	r := round{requests: int(sent.Load()), took: time.Since(start)}
	if err != nil {
		return r, fmt.Errorf("%s: %w", l.server.name, err)
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	after, err := cpuOf(l.server.pid())
	r.cpu = after - before
	return r, err
}

func (l *load) one(c *client) error {
	request := l.request
	if l.asked != nil {
		request = c.fresh(request, l.asked.Add(1))
	}
	if err := c.exchange(request); err != nil {
		return err
	}
	if !strings.HasPrefix(c.status, l.want) {
		return fmt.Errorf("status %q, not %q", c.status, l.want)
	}
	if l.events > 0 && c.events != l.events {
		return fmt.Errorf("%d events of %d", c.events, l.events)
	}
	return nil
}

// latencies sends n requests on the first connection and appends the duration of each in
// microseconds.
func (l *load) latencies(dst []float64, n int) ([]float64, error) {
	for range n {
		start := time.Now()
		if err := l.one(l.clients[0]); err != nil {
			return dst, fmt.Errorf("%s: %w", l.server.name, err)
		}
		dst = append(dst, float64(time.Since(start).Nanoseconds())/1e3)
	}
	return dst, nil
}
