package server

import (
	"context"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
)

// checkEvery is how often upstreams are checked. Most checks do nothing; see
// transport.Bases.Check.
const checkEvery = 5 * time.Second

// WatchUpstreams starts to check in the background whether upstreams can be reached, and exports it.
// Call it once, after DataServer.
func (e *Engine) WatchUpstreams() {
	e.Metrics.WatchUpstreams(func() map[string]float64 {
		up := map[string]float64{}
		for _, u := range e.data.UpstreamStates() {
			if !u.Known() {
				continue
			}
			if up[u.Name] = 0; u.Up() {
				up[u.Name] = 1
			}
		}
		return up
	})
	e.tasks.Start(func(ctx context.Context) {
		outages := map[string]string{}
		for pause(ctx, checkEvery) { // the start has its own check, see serving.Output.Announce
			e.data.CheckUpstreams(ctx)
			if ctx.Err() == nil {
				outages = e.tellOutages(outages, e.data.UpstreamStates())
			}
		}
	})
}

// tellOutages logs outages of base URLs that began or ended since those of before, which it returns
// for the next call.
func (e *Engine) tellOutages(before map[string]string, states []proxy.UpstreamState) (now map[string]string) {
	now = map[string]string{}
	for _, u := range states {
		lines := u.Problems()
		for _, b := range u.Bases {
			if b.Err == nil {
				continue
			}
			line, at := lines[0], u.Name+" "+b.Origin
			lines = lines[1:]
			if now[at] = before[at]; now[at] == "" {
				now[at] = line
				e.monitor.Changed(line, true)
			}
		}
	}
	for at, line := range before {
		if now[at] == "" {
			e.monitor.Changed(line, false)
		}
	}
	return now
}

// WatchCredentials exports when keys and certificates expire, and how old the keys of issuers are. Call
// it once.
func (e *Engine) WatchCredentials() {
	ports := e.Config.PortCertificates()
	e.Metrics.WatchExpiries(func() []report.Expiry {
		all := e.Running().Expiries()
		for key, expires := range ports {
			if at := expires(); !at.IsZero() {
				all = append(all, report.Expiry{Kind: "certificate", Name: key, At: at})
			}
		}
		return all
	})
	e.Metrics.WatchIssuers(func() map[string]float64 { return e.issuers.Load().Ages(time.Now()) })
}
