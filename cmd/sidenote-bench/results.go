package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
)

// results are the results of a run. Times are in microseconds, memory in bytes.
type results struct {
	Machine machine         `json:"machine"`
	Load    settings        `json:"load"`
	CPU     []cpuResult     `json:"cpu"`
	Latency []latencyResult `json:"latency,omitempty"`
	Memory  *memoryResult   `json:"memory,omitempty"`
	Stress  *stressResult   `json:"stress,omitempty"`
	Growth  []growthResult  `json:"growth,omitempty"`
	Page    *pageResult     `json:"page,omitempty"`
}

type machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Go   string `json:"go"`
}

type settings struct {
	Connections int    `json:"connections"`
	Rounds      int    `json:"rounds"`
	RoundMS     int64  `json:"round_ms"`
	Log         string `json:"log"`
}

// A cpuResult compares the CPU of both processes per request.
type cpuResult struct {
	Name     string  `json:"name"`
	Relay    float64 `json:"relay_us"`
	Sidenote float64 `json:"sidenote_us"`
	Ratio    float64 `json:"ratio"`         // median of the rounds
	Low      float64 `json:"ratio_low"`     // their lower quartile
	High     float64 `json:"ratio_high"`    // and the upper one
	Bar      float64 `json:"bar,omitempty"` // target
	Change   *change `json:"change,omitempty"`
}

// A change compares with another build of Sidenote.
type change struct {
	Before float64 `json:"before_us"`
	Ratio  float64 `json:"ratio"` // of the cost now to the cost before; median of the rounds
	Low    float64 `json:"ratio_low"`
	High   float64 `json:"ratio_high"`
}

// A latencyResult holds the latency of a request with no other in progress.
type latencyResult struct {
	Name     string      `json:"name"`
	Direct   percentiles `json:"direct"` // without a relay
	Relay    percentiles `json:"relay"`
	Sidenote percentiles `json:"sidenote"`
}

type percentiles struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

type memoryResult struct {
	Streams  int     `json:"streams"`
	Asked    int     `json:"streams_asked"` // greater than Streams if the limit of open files is lower
	Relay    float64 `json:"relay_bytes_each"`
	Sidenote float64 `json:"sidenote_bytes_each"`
}

type stressResult struct {
	Chats         int    `json:"chats"`
	RelayLost     int    `json:"relay_lost"`
	SidenoteLost  int    `json:"sidenote_lost"`
	RelayError    string `json:"relay_error,omitempty"`
	SidenoteError string `json:"sidenote_error,omitempty"`
}

type growthResult struct {
	What  string `json:"what"`
	Value string `json:"value"`
	cpuResult
}

// A pageResult compares the cost of a request without and with open pages.
type pageResult struct {
	Rate    int     `json:"requests_per_second"`
	Pages   int     `json:"pages"`
	Without float64 `json:"without_us"`
	With    float64 `json:"with_us"`
	More    float64 `json:"more_us"`      // per page, median of the rounds
	Low     float64 `json:"more_low_us"`  // their lower quartile
	High    float64 `json:"more_high_us"` // and the upper one
	Bar     float64 `json:"bar_us"`       // target
}

func newResults(b *bench) *results {
	return &results{
		Machine: machine{runtime.NumCPU(), runtime.GOOS + "/" + runtime.GOARCH, runtime.Version()},
		Load:    settings{b.Connections, b.Rounds, b.Round.Milliseconds(), b.Log},
		CPU:     []cpuResult{},
	}
}

func (r *results) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d cores, %s, %s; %d connections, medians of %d rounds of %d ms, log: %s\n",
		r.Machine.CPUs, r.Machine.OS, r.Machine.Go, r.Load.Connections, r.Load.Rounds, r.Load.RoundMS, r.Load.Log)
	for _, section := range []struct {
		measured bool
		head     string
		write    func(io.Writer)
	}{
		{len(r.CPU) > 0, "CPU µs a request\trelay\tSidenote\tratio\tquartiles\taim\t", r.writeCPU},
		{len(r.CPU) > 0 && slices.ContainsFunc(r.CPU, func(c cpuResult) bool { return c.Change != nil }), "CPU µs a request\tbefore\tnow\tratio\tquartiles\t", r.writeChange},
		{len(r.Latency) > 0, "Latency µs, one connection\tdirect p50\trelay adds\tSidenote adds\tdirect p99\trelay adds\tSidenote adds\t", r.writeLatency},
		{r.Memory != nil, "Memory KB an open idle stream\trelay\tSidenote\t", r.writeMemory},
		{r.Stress != nil, "Streamed chats lost\trelay\tSidenote\t", r.writeStress},
		{r.Page != nil, "CPU µs a request, few a second\tno page\tpages open\tmore for each\tquartiles\taim\t", r.writePage},
		{len(r.Growth) > 0, "Growth, CPU µs a request\t\trelay\tSidenote\tratio\tquartiles\t", r.writeGrowth},
	} {
		if section.measured {
			fmt.Fprintf(t, "\n%s\n", section.head)
			section.write(t)
		}
	}
	return t.Flush()
}

func (r *results) writeCPU(w io.Writer) {
	for _, c := range r.CPU {
		aim := ""
		if c.Bar > 0 {
			aim = fmt.Sprintf("≤ %.1f", c.Bar)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.2f–%.2f\t%s\t\n", c.Name, c.Relay, c.Sidenote, c.Ratio, c.Low, c.High, aim)
	}
}

func (r *results) writeChange(w io.Writer) {
	for _, c := range r.CPU {
		if c.Change == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.2f–%.2f\t\n", c.Name, c.Change.Before, c.Sidenote, c.Change.Ratio, c.Change.Low, c.Change.High)
	}
}

func (r *results) writeLatency(w io.Writer) {
	for _, l := range r.Latency {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", l.Name,
			l.Direct.P50, l.Relay.P50-l.Direct.P50, l.Sidenote.P50-l.Direct.P50,
			l.Direct.P99, l.Relay.P99-l.Direct.P99, l.Sidenote.P99-l.Direct.P99)
	}
}

func (r *results) writeMemory(w io.Writer) {
	fmt.Fprintf(w, "%d streams\t%.1f\t%.1f\t\n", r.Memory.Streams, r.Memory.Relay/kib, r.Memory.Sidenote/kib)
	if r.Memory.Asked > r.Memory.Streams {
		fmt.Fprintf(w, "(%d were asked for; the limit of open files is lower)\t\t\t\n", r.Memory.Asked)
	}
}

func (r *results) writeStress(w io.Writer) {
	fmt.Fprintf(w, "of %d\t%d\t%d\t\n", r.Stress.Chats, r.Stress.RelayLost, r.Stress.SidenoteLost)
	for _, text := range []string{r.Stress.RelayError, r.Stress.SidenoteError} {
		if text != "" {
			fmt.Fprintf(w, "%s\t\t\t\n", text)
		}
	}
}

func (r *results) writePage(w io.Writer) {
	p := r.Page
	fmt.Fprintf(w, "1 KB chat, %d a second, %d pages\t%.1f\t%.1f\t%.2f\t%.2f to %.2f\t≤ %.1f\t\n", p.Rate, p.Pages, p.Without, p.With, p.More, p.Low, p.High, p.Bar)
}

func (r *results) writeGrowth(w io.Writer) {
	for _, g := range r.Growth {
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.2f\t%.2f–%.2f\t\n", g.What, g.Value, g.Relay, g.Sidenote, g.Ratio, g.Low, g.High)
	}
}
