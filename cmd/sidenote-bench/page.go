package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"sidenote/cmd/internal/terminal"
)

const (
	pageRate = 1000 // requests per second
	pages    = 16   // the maximum, so that the cost of one exceeds the noise
	pageBar  = 1.0  // additional microseconds that a request may cost
	// pageRounds is the length of one round in rounds of other measurements: at high rates, pages
	// get updates once a second.
	pageRounds = 8
)

// measurePage compares the cost of a request with and without inspector pages that follow all
// requests, in one process, in turns.
func (b *bench) measurePage(ctx context.Context, out *results) (err error) {
	r := &rig{}
	defer func() { err = errors.Join(err, r.stop()) }()
	if r.upstream, err = startRole(ctx, "role-upstream"); err != nil {
		return err
	}
	admin, err := freeAddress()
	if err != nil {
		return err
	}
	if r.sidenote, err = b.startSidenote(ctx, b.Sidenote, program{upstream: r.upstream.addr, documents: mainSources, admin: admin}); err != nil {
		return err
	}
	l, err := newLoad(r.sidenote, works()[0], 1)
	if err != nil {
		return err
	}
	defer l.close()
	var cost [2][]float64 // without and with pages
	for n := range b.Rounds + 1 {
		b.progress.Show(terminal.Work{Name: "page", Done: n, Total: b.Rounds + 1})
		for _, open := range rand.Perm(2) {
			each, err := b.paced(ctx, l, admin, open*pages)
			if err != nil {
				return fmt.Errorf("with %d pages: %w", open*pages, err)
			}
			if n > 0 { // the first round is a warm-up
				cost[open] = append(cost[open], each)
			}
		}
	}
	more := make([]float64, len(cost[0]))
	for i := range more {
		more[i] = (cost[1][i] - cost[0][i]) / pages
	}
	out.Page = &pageResult{
		Rate: pageRate, Pages: pages, Without: median(cost[0]), With: median(cost[1]), More: median(more), Low: quantile(more, .25), High: quantile(more, .75), Bar: pageBar,
	}
	return nil
}

// paced sends requests at pageRate while so many pages follow, and returns the cost of each.
func (b *bench) paced(ctx context.Context, l *load, admin string, pages int) (each float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range pages {
		events, err := follow(ctx, admin)
		if err != nil {
			return 0, err
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, events) // until stop
			_ = events.Close()
		}()
		defer func() { stop(); <-read }()
	}
	r, err := l.pace(ctx, pageRounds*b.Round)
	if err != nil {
		return 0, err
	}
	return r.perRequest(), nil
}

// follow opens the event stream of requests as soon as a slot is free: closed pages of the
// previous round release theirs with a delay.
func follow(ctx context.Context, admin string) (events io.ReadCloser, err error) {
	for {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+admin+"/requests/events", nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp.Body, nil
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			return nil, fmt.Errorf("follow requests: %s", resp.Status)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pace sends pageRate requests per second on the first connection for the given time.
func (l *load) pace(ctx context.Context, long time.Duration) (r round, err error) {
	before, err := cpuOf(l.server.pid())
	if err != nil {
		return r, err
	}
	ticks := time.NewTicker(time.Second / pageRate)
	defer ticks.Stop()
	for start := time.Now(); r.took < long; r.took = time.Since(start) {
		for due := int(time.Since(start) * pageRate / time.Second); r.requests < due; r.requests++ {
			if err := l.one(l.clients[0]); err != nil {
				return r, fmt.Errorf("%s: %w", l.server.name, err)
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	after, err := cpuOf(l.server.pid())
	r.cpu = after - before
	return r, err
}
