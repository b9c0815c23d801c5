package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"sidenote/cmd/internal/terminal"
)

// measureCPU compares the CPU of both servers, case by case. Staged cases have their own rig.
func (b *bench) measureCPU(ctx context.Context, out *results) error {
	works := b.works()
	for len(works) > 0 {
		staged, n := works[0].calls > 0, 1
		for n < len(works) && (works[n].calls > 0) == staged {
			n++
		}
		p := program{documents: mainSources, staged: staged}
		err := b.with(ctx, p, func(r *rig) error { return b.compareAll(ctx, r, works[:n], out) })
		if err != nil {
			return err
		}
		works = works[n:]
	}
	return nil
}

func (b *bench) compareAll(ctx context.Context, r *rig, works []work, out *results) error {
	for _, w := range works {
		ratio, err := b.compare(ctx, r, w, b.Connections, b.Rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		out.CPU = append(out.CPU, ratio)
	}
	return nil
}

// compare runs one case on the servers in turns, in a random order in each round.
func (b *bench) compare(ctx context.Context, r *rig, w work, connections, rounds int) (result cpuResult, err error) {
	servers := []*server{r.relay, r.sidenote}
	if r.before != nil {
		servers = append(servers, r.before)
	}
	floor, asked := w, float64(max(w.calls, 1))
	if w.relayed != nil {
		floor.request = w.relayed
	}
	if w.here {
		servers[0], floor.status = r.sidenote, "untouched; reason=off"
	}
	loads, cost := make([]*load, len(servers)), make([][]float64, len(servers))
	for i, s := range servers {
		of := w
		if i == 0 {
			of = floor
		}
		if loads[i], err = newLoad(s, of, connections); err != nil {
			return result, err
		}
		defer loads[i].close()
	}
	for n := range rounds + 1 {
		b.progress.Show(terminal.Work{Name: w.name, Done: n, Total: rounds + 1})
		for _, i := range rand.Perm(len(loads)) {
			round, err := loads[i].run(ctx, b.Round)
			if err != nil {
				return result, err
			}
			if n > 0 { // the first round is a warm-up
				each := round.perRequest()
				if i == 0 {
					each *= asked
				}
				cost[i] = append(cost[i], each)
			}
		}
	}
	result = cpuResult{Name: w.name, Relay: median(cost[0]), Sidenote: median(cost[1]), Bar: w.bar}
	result.Ratio, result.Low, result.High = ratios(cost[1], cost[0])
	if len(cost) > 2 {
		c := &change{Before: median(cost[2])}
		c.Ratio, c.Low, c.High = ratios(cost[1], cost[2])
		result.Change = c
	}
	return result, nil
}

// ratios returns the median and the quartiles of the pairwise ratios.
func ratios(of, to []float64) (mid, low, high float64) {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = of[i] / to[i]
	}
	return median(all), quantile(all, 0.25), quantile(all, 0.75)
}

// measureLatency compares the latency of single requests on an idle machine: directly to the
// upstream, through the relay, and through Sidenote.
func (b *bench) measureLatency(ctx context.Context, out *results) error {
	return b.with(ctx, program{documents: mainSources}, func(r *rig) error {
		for _, w := range works() {
			if w.events > 0 || w.calls > 0 {
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
		if _, err := loads[i].latencies(nil, min(b.Latencies, 200)); err != nil { // warm-up
			return result, err
		}
	}
	for n := 0; n < b.Latencies; n += batch {
		b.progress.Show(terminal.Work{Name: "latency, " + w.name, Done: n, Total: b.Latencies})
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

// measureMemory opens streams that stay idle after one event.
func (b *bench) measureMemory(ctx context.Context, out *results) error {
	streams := min(b.Streams, (descriptors()-200)/2) // a relay needs two for each
	return b.with(ctx, program{documents: mainSources}, func(r *rig) error {
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

// memory returns the memory of each of n open streams on a server, in bytes.
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
		b.progress.Show(terminal.Work{Name: "open streams, " + s.name, Done: i, Total: n})
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

// measureGrowth fills the growth table. Rows with the same number of documents share a rig.
func (b *bench) measureGrowth(ctx context.Context, out *results) error {
	rows := growths()
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].documents == rows[0].documents {
			n++
		}
		err := b.with(ctx, program{documents: rows[0].documents}, func(r *rig) error { return b.grow(ctx, r, rows[:n], out) })
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
