package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
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
	for _, a := range addresses {
		a = a.Unmap().WithZone("")
		if a == own.Unmap() || own.IsUnspecified() && (a.IsLoopback() || a.IsUnspecified() || here[a]) {
			return true
		}
	}
	return false
}
