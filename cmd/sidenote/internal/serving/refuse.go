package serving

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

// Refuse returns an error if a configuration does not fit the open ports.
func Refuse(ctx context.Context, cfg *config.Config, ls Listeners) error {
	if err := RefuseOpen(cfg, ls); err != nil {
		return err
	}
	return refuseLoop(ctx, cfg, ls, net.DefaultResolver.LookupNetIP)
}

// A lookup resolves a host name, as net.Resolver.LookupNetIP does.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// lookupWait limits how long start-up waits for name resolution.
const lookupWait = 2 * time.Second

// refuseLoop refuses an upstream whose name resolves to one of our open ports: each request would
// loop until the limit is reached. Addresses were checked with the configuration; names and
// interfaces can only be checked here. A name that does not resolve is not an error.
func refuseLoop(ctx context.Context, cfg *config.Config, ls Listeners, resolve lookup) error {
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	upstreams := config.ProxyUpstreams(cfg)
	for _, name := range cfg.UpstreamNames() {
		base := upstreams[string(name)].BaseURL
		if upstreams[string(name)].Dial.Socket != "" {
			continue // checked with the configuration
		}
		for _, l := range ls.All() {
			own, err := netip.ParseAddrPort(l.Addr().String())
			if err != nil || strconv.Itoa(int(own.Port())) != config.PortOf(base) {
				continue
			}
			addresses, err := resolve(ctx, "ip", base.Hostname())
			if err == nil && leadsTo(addresses, own.Addr()) {
				return fmt.Errorf("upstream %s: %s is Sidenote's own address", name, base)
			}
		}
	}
	return nil
}

// leadsTo reports whether one of the addresses is that of a listener on this machine.
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

// IsOpen reports whether other machines can reach a port and some callers need neither a key nor a
// client certificate there.
func IsOpen(cfg *config.Config, port config.Listener, l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	if _, socket := l.Addr().(*net.UnixAddr); socket {
		return false
	}
	keyless := cfg.Proxy().Tenants.Unknown != nil || port.Tenant != ""
	return keyless && port.TLS.ClientCA == "" && !(ok && at.IP.IsLoopback())
}

// OpenLine returns the warning about an open data port.
func OpenLine(cfg *config.Config, port config.Listener, l net.Listener) string {
	p := cfg.Proxy()
	policy := p.Tenants.Unknown
	if named, ok := cfg.Tenant(port.Tenant); ok {
		policy = &named
	}
	line := fmt.Sprintf("open: anyone who reaches %s may ask, without a key", l.Addr())
	if p.Upstreams[policy.Upstream].APIKey.Reveal() != "" {
		line += fmt.Sprintf(" and with the api_key of upstream %s", policy.Upstream)
	}
	return line
}

// RefuseOpen refuses an open port unless identity.open is set. Addresses were checked with the
// configuration; this checks names, which may resolve to anything.
func RefuseOpen(cfg *config.Config, ls Listeners) error {
	for i, l := range ls.Data {
		if err := refuseOpen(cfg, "listen", cfg.Listen[i], l); err != nil {
			return err
		}
	}
	if ls.MCP == nil {
		return nil
	}
	return refuseOpen(cfg, "mcp.listen", cfg.MCP.Port(), ls.MCP)
}

func refuseOpen(cfg *config.Config, key string, port config.Listener, l net.Listener) error {
	if cfg.Identity.Open || !IsOpen(cfg, port, l) {
		return nil
	}
	_, number, _ := net.SplitHostPort(string(port.Address))
	return fmt.Errorf("%s: %s is %s here, which can be reached from other machines, and callers need no key; write 127.0.0.1:%s",
		key, port.Address, l.Addr(), number)
}
