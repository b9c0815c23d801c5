package main

import (
	"fmt"
	"net"

	"sidenote/cmd/sidenote/internal/config"
)

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
