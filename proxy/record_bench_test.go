//go:build unix

package proxy_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/proxy/record"
)

// A recordGate lets the background of a Recorder go on, or holds it after the first record that it
// writes.
type recordGate struct {
	held    chan struct{} // gets a value when the background is held
	open    chan struct{} // closed to let it go on; nil: it is not held
	written chan struct{} // gets a value for each record
	hold    chan bool
}

func newRecordGate() *recordGate {
	return &recordGate{held: make(chan struct{}), open: make(chan struct{}), written: make(chan struct{}, 1<<16), hold: make(chan bool, 1)}
}

// count is the Count of the Recorder.
func (g *recordGate) count(_, result string) {
	if result != record.Written {
		panic(result)
	}
	g.written <- struct{}{}
	select {
	case <-g.hold:
		g.held <- struct{}{}
		<-g.open
	default:
	}
}

// during calls do while the background is held, with n requests, and lets it write them all.
func (g *recordGate) during(ask func(), n int, do func()) {
	g.hold <- true
	ask()
	<-g.held
	do()
	g.open <- struct{}{}
	for range n + 1 {
		<-g.written
	}
}

// benchRecorder returns a Recorder of the policy of benchServer.
func benchRecorder(b *testing.B, s record.Settings, count func(policy, result string)) *record.Recorder {
	keys, err := cache.ParseKeys([]byte("one AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
	if err != nil {
		b.Fatal(err)
	}
	r := record.New(b.TempDir(), record.Options{Count: count})
	s.Keep, s.Max, s.Keys = 7*24*time.Hour, 1<<30, keys
	s.Redact = record.Redactor{Emails: true, Numbers: true}
	r.Configure(map[string]record.Settings{"base": s})
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

// BenchmarkRecord sends chats of 20 KB, in turns to a server that does not record and to one that
// records all or a share of them. It reports the CPU time of a request on both, with client and
// upstream, what recording adds to it on the path of the request (path-%) and with the work in the
// background (all-%), and the allocations on the path. At most 2 % and no allocation on the path are
// wanted.
func BenchmarkRecord(b *testing.B) {
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("a question ", 20<<10/11) + `"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", benchLines, len(body), body)
	for name, s := range map[string]record.Settings{"questions": {Share: 1}, "requests": {Share: 1, Requests: true}} {
		b.Run(name, func(b *testing.B) {
			gate := newRecordGate()
			recorder := benchRecorder(b, s, gate.count)
			off := dialBench(b, benchServer(b))
			on := dialBench(b, benchServer(b, func(cfg *proxy.Config) { cfg.Recorder = recorder }))
			const turn = 100
			took := func(c *benchClient) float64 {
				began := processTime(b)
				for range turn {
					c.ask(b, request)
				}
				return float64((processTime(b) - began).Nanoseconds()) / turn
			}
			var without, path, all []float64
			for b.Loop() {
				without = append(without, took(off))
				gate.during(func() { on.ask(b, request) }, turn, func() { path = append(path, took(on)) })
				without = append(without, took(off))
				began := processTime(b)
				for range turn {
					on.ask(b, request)
				}
				for range turn {
					<-gate.written
				}
				all = append(all, float64((processTime(b)-began).Nanoseconds())/turn)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would empty pools
			gate.during(func() { on.ask(b, request) }, 2*turn, func() {
				for range 2 * turn {
					on.ask(b, request)
				}
			})
			var allocs float64
			gate.during(func() { on.ask(b, request) }, turn+1, func() {
				allocs = testing.AllocsPerRun(turn, func() { on.ask(b, request) })
			})
			b.ReportMetric(0, "ns/op")
			a, p, z := least(without), least(path), least(all)
			b.ReportMetric(a/1e3, "off-µs")
			b.ReportMetric(100*(p/a-1), "path-%")
			b.ReportMetric(100*(z/a-1), "all-%")
			b.ReportMetric(testing.AllocsPerRun(1000, func() { off.ask(b, request) }), "off-allocs")
			b.ReportMetric(allocs, "on-allocs")
		})
	}
}

// least returns the tenth percentile: slower turns shared their cores with other processes.
func least(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/10]
}
