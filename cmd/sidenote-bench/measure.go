package main

import (
	"context"
	"errors"
	"fmt"

	"sidenote/cmd/internal/console"
)

// measureCPU compares the CPU of both relays, case by case.
func (b *bench) measureCPU(ctx context.Context, out *results) error {
	return b.with(ctx, mainSources, func(r *rig) error {
		for _, w := range b.works() {
			ratio, err := b.compare(ctx, r, w, b.Connections, b.Rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			out.CPU = append(out.CPU, ratio)
		}
		return nil
	})
}

// compare lets both relays take turns at one piece of work.
func (b *bench) compare(ctx context.Context, r *rig, w work, connections, rounds int) (result cpuResult, err error) {
	relay, err := newLoad(r.relay, w, connections)
	if err != nil {
		return result, err
	}
	defer relay.close()
	sidenote, err := newLoad(r.sidenote, w, connections)
	if err != nil {
		return result, err
	}
	defer sidenote.close()
	var floor, ours, ratios []float64
	for i := range rounds + 1 {
		b.progress.Show(console.Work{Name: w.name, Done: i, Total: rounds + 1})
		theirs, err := relay.run(ctx, b.Round)
		if err != nil {
			return result, err
		}
		own, err := sidenote.run(ctx, b.Round)
		if err != nil {
			return result, err
		}
		if i == 0 { // to warm up
			continue
		}
		floor, ours = append(floor, theirs.perRequest()), append(ours, own.perRequest())
		ratios = append(ratios, own.perRequest()/theirs.perRequest())
	}
	result = cpuResult{Name: w.name, Relay: median(floor), Sidenote: median(ours), Bar: w.bar}
	result.Ratio, result.Low, result.High = median(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75)
	return result, nil
}

// measureLatency compares how long single requests take, with nothing else under
// way: without a relay, through the floor, through Sidenote.
func (b *bench) measureLatency(ctx context.Context, out *results) error {
	return b.with(ctx, mainSources, func(r *rig) error {
		for _, w := range works() {
			if w.events > 0 {
				continue
			}
			result, err := b.latency(ctx, r, w)
			if err != nil {
				return fmt.Errorf("latency, %s: %w", w.name, err)
			}
			out.Latency = append(out.Latency, result)
		}
		return nil
	})
}

func (b *bench) latency(ctx context.Context, r *rig, w work) (result latencyResult, err error) {
	const batch = 50
	var took [3][]float64
	var loads [3]*load
	for i, s := range []*server{r.upstream, r.relay, r.sidenote} {
		if loads[i], err = newLoad(s, w, 1); err != nil {
			return result, err
		}
		defer loads[i].close()
		if _, err := loads[i].latencies(nil, min(b.Latencies, 200)); err != nil { // to warm up
			return result, err
		}
	}
	for n := 0; n < b.Latencies; n += batch {
		b.progress.Show(console.Work{Name: "latency, " + w.name, Done: n, Total: b.Latencies})
		for i, l := range loads {
			if took[i], err = l.latencies(took[i], min(batch, b.Latencies-n)); err != nil {
				return result, err
			}
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
	}
	result.Name = w.name
	for i, to := range []*percentiles{&result.Direct, &result.Relay, &result.Sidenote} {
		*to = percentiles{quantile(took[i], 0.5), quantile(took[i], 0.99)}
	}
	return result, nil
}

// measureMemory opens streams that say one event and then nothing.
func (b *bench) measureMemory(ctx context.Context, out *results) error {
	streams := min(b.Streams, (descriptors()-200)/2) // a relay has two for each
	return b.with(ctx, mainSources, func(r *rig) error {
		result := memoryResult{Streams: streams, Asked: b.Streams}
		var err error
		if result.Relay, err = b.memory(ctx, r, r.relay, streams); err != nil {
			return fmt.Errorf("open streams: %w", err)
		}
		if result.Sidenote, err = b.memory(ctx, r, r.sidenote, streams); err != nil {
			return fmt.Errorf("open streams: %w", err)
		}
		out.Memory = &result
		return nil
	})
}

// memory is what each of n open streams costs a server, in bytes.
func (b *bench) memory(ctx context.Context, r *rig, s *server, n int) (each float64, err error) {
	request := chatRequest(chatOf(1*kib, answerOpen), answerOpen)
	before, err := memoryOf(s.pid())
	if err != nil {
		return 0, err
	}
	open := make([]*client, 0, n)
	defer func() {
		err = errors.Join(err, releaseStreams(r.upstream.addr))
		for _, c := range open {
			c.close()
		}
	}()
	for i := range n {
		b.progress.Show(console.Work{Name: "open streams, " + s.name, Done: i, Total: n})
		c, err := dial(s.addr)
		if err != nil {
			return 0, err
		}
		open = append(open, c)
		if err := c.firstChunk(request); err != nil {
			return 0, fmt.Errorf("%s: stream %d: %w", s.name, i+1, err)
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	after, err := memoryOf(s.pid())
	return float64(after-before) / float64(n), err
}

// measureGrowth fills the growth table. Rows with as many documents share a rig.
func (b *bench) measureGrowth(ctx context.Context, out *results) error {
	rows := growths()
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].documents == rows[0].documents {
			n++
		}
		err := b.with(ctx, rows[0].documents, func(r *rig) error { return b.grow(ctx, r, rows[:n], out) })
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (b *bench) grow(ctx context.Context, r *rig, rows []growth, out *results) error {
	for _, g := range rows {
		w := work{name: "growth, " + g.what + ": " + g.value, request: g.request, status: fmt.Sprintf("injected; sources=%d;", g.documents)}
		result, err := b.compare(ctx, r, w, g.connections, (b.Rounds+2)/3)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		out.Growth = append(out.Growth, growthResult{What: g.what, Value: g.value, cpuResult: result})
	}
	return nil
}
