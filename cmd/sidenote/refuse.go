package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"sidenote/cmd/sidenote/internal/config"
)

// A lookup resolves a host name, as net.Resolver.LookupNetIP does.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// lookupWait bounds how long start-up waits for a name.
const lookupWait = 2 * time.Second

// refuseLoop refuses an upstream whose name resolves to one of our open ports: each request
// would come back until no more fit. Addresses were checked with the configuration; names
// and interfaces can be checked here only. A name that does not resolve is no error.
func refuseLoop(ctx context.Context, cfg *config.Config, ls listeners, resolve lookup) error {
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	for _, name := range cfg.UpstreamNames() {
		base := cfg.Proxy().Upstreams[string(name)].BaseURL
		for _, l := range []net.Listener{ls.data, ls.admin, ls.telemetry} {
			if l == nil {
				continue
			}
			own, err := netip.ParseAddrPort(l.Addr().String())
			if err != nil || strconv.Itoa(int(own.Port())) != config.PortOf(base) {
				continue
			}
			addresses, err := resolve(ctx, "ip", base.Hostname())
			if err == nil && leadsTo(addresses, own.Addr()) {
				return usageError{fmt.Errorf("upstream %s: %s is Sidenote's own address", name, base)}
			}
		}
	}
	return nil
}

// leadsTo tells whether one of the addresses is that of a listener on this machine.
func leadsTo(addresses []netip.Addr, own netip.Addr) bool {
	here := map[netip.Addr]bool{}
	if own.IsUnspecified() {
		nets, _ := net.InterfaceAddrs() // on an error only loopback is known
		for _, n := range nets {
			if prefix, err := netip.ParsePrefix(n.String()); err == nil {
				here[prefix.Addr().Unmap()] = true
			}
		}
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		a = a.Unmap().WithZone("")
		return a == own.Unmap() || own.IsUnspecified() && (a.IsLoopback() || a.IsUnspecified() || here[a])
	})
}

// open tells whether other machines reach the data port and some callers need no
// key there.
func open(cfg *config.Config, data net.Listener) bool {
	at, ok := data.Addr().(*net.TCPAddr)
	return cfg.Proxy().Tenants.Unknown != nil && !(ok && at.IP.IsLoopback())
}

// openLine is the warning about an open data port.
func openLine(cfg *config.Config, data net.Listener) string {
	p := cfg.Proxy()
	line := fmt.Sprintf("open: anyone who reaches %s may ask, without a key", data.Addr())
	if up := p.Tenants.Unknown.Upstream; p.Upstreams[up].APIKey.Reveal() != "" {
		line += fmt.Sprintf(" and with the api_key of upstream %s", up)
	}
	return line
}

// refuseOpen refuses a data port that is open where identity.open is not set. Addresses were
// checked with the configuration; this is about names, which may resolve to anything.
func refuseOpen(cfg *config.Config, data net.Listener) error {
	if cfg.Identity.Open || !open(cfg, data) {
		return nil
	}
	_, port, _ := net.SplitHostPort(string(cfg.Listen))
	return usageError{fmt.Errorf("listen: %s is %s here, which can be reached from other machines, and callers need no key; write 127.0.0.1:%s",
		cfg.Listen, data.Addr(), port)}
}
