package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/mcp"
	"sidenote/proxy/transport"
)

// Listeners are the open ports; Admin, Telemetry and MCP are nil if they are off.
type Listeners struct {
	Data                  []net.Listener // in the order of the configuration
	Admin, Telemetry, MCP net.Listener
}

// OpenPorts opens all ports or none. tell is called when certificates are reloaded, and when that
// fails.
func OpenPorts(ctx context.Context, cfg *config.Config, tell func(slog.Level, string)) (ls Listeners, err error) {
	open := func(key string, of config.Listener) net.Listener {
		if of.Address == config.Off || err != nil {
			return nil
		}
		var l net.Listener
		if l, err = openPort(ctx, key, of, tell); err != nil {
			return nil
		}
		return l
	}
	for _, l := range cfg.Listen {
		if opened := open("listen", l); opened != nil {
			ls.Data = append(ls.Data, opened)
		}
	}
	ls.Admin = open("admin.listen", config.Listener{Address: cfg.Admin.Listen, TLS: cfg.Admin.TLS})
	ls.Telemetry = open("telemetry.listen", config.Listener{Address: cfg.Telemetry.Listen, TLS: cfg.Telemetry.TLS})
	ls.MCP = open("mcp.listen", cfg.MCP.Port())
	if err != nil {
		ls.Close()
		return Listeners{}, err
	}
	return ls, nil
}

// openPort opens one port.
func openPort(ctx context.Context, key string, of config.Listener, tell func(slog.Level, string)) (net.Listener, error) {
	at := of.Address
	port := &transport.Listener{Tenant: string(of.Tenant), Proxies: config.Networks(of.Proxies)}
	port.Refused = seldom(func(err error) {
		tell(slog.LevelWarn, fmt.Sprintf("%s: %s: a connection of a load balancer is closed: %v; proxy_protocol lists its address", key, at, err))
	})
	var err error
	if of.TLS.On() {
		port.TLS, err = transport.ListenerTLS(of.TLS.Files(), func(err error) {
			if err != nil {
				tell(slog.LevelError, fmt.Sprintf("%s: %s: certificates cannot be read again, the last ones stay: %v", key, at, err))
				return
			}
			tell(slog.LevelInfo, fmt.Sprintf("%s: %s: new certificates are used", key, at))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", key, at, err)
		}
	}
	if path := at.Socket(); path != "" {
		port.Listener, err = listenUnix(ctx, path)
	} else {
		port.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", string(at))
	}
	if err != nil {
		return nil, cannotListen(key, string(at), err)
	}
	return port, nil
}

// cannotListen says why a port cannot be opened, and which flag chooses another.
func cannotListen(key, at string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		flag, _ := strings.CutSuffix(key, ".listen")
		return fmt.Errorf("%s: %s: address already in use; stop the process that listens there, or choose another address with --%s", key, at, flag)
	}
	return fmt.Errorf("%s: %s: %w", key, at, terminal.Cause(err))
}

// seldom returns a function that calls tell at most once a minute.
func seldom(tell func(error)) func(error) {
	var mu sync.Mutex
	var told time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); told.IsZero() || now.Sub(told) >= time.Minute {
			told = now
			tell(err)
		}
	}
}

// All returns the open ports.
func (ls Listeners) All() []net.Listener {
	all := append([]net.Listener(nil), ls.Data...)
	for _, l := range []net.Listener{ls.Admin, ls.Telemetry, ls.MCP} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// AdminAddress returns the address of the admin port for other processes, as package client reads
// it; "" if it is off.
func (ls Listeners) AdminAddress() string {
	if ls.Admin == nil {
		return ""
	}
	at := config.Address(ls.Admin.Addr().String())
	if socket, ok := ls.Admin.Addr().(*net.UnixAddr); ok {
		at = config.Address(config.Unix + socket.Name)
	}
	return LocalURL(at, Scheme(ls.Admin) == "https")
}

// LocalURL returns the address of a configured listener for programs on this machine: HOST:PORT or
// unix:/PATH, prefixed with https:// for TLS.
func LocalURL(at config.Address, tls bool) string {
	place := string(at)
	if at.Socket() == "" {
		place = Local(at)
	}
	if tls {
		place = "https://" + place
	}
	return place
}

// Close closes all ports.
func (ls Listeners) Close() {
	for _, l := range ls.All() {
		_ = l.Close()
	}
}

// Scheme returns the URL scheme of a listener.
func Scheme(l net.Listener) string {
	if port, ok := l.(*transport.Listener); ok && port.TLS != nil {
		return "https"
	}
	return "http"
}

// LocalAddr returns the address of an open port for programs on this machine.
func LocalAddr(l net.Listener) string { return Local(config.Address(l.Addr().String())) }

// BaseURL returns the base URL of a data port for programs on this machine.
func BaseURL(l net.Listener) string {
	if at, ok := l.Addr().(*net.UnixAddr); ok {
		return config.Unix + at.Name + ":/v1"
	}
	return Scheme(l) + "://" + LocalAddr(l) + "/v1"
}

// MCPURL returns the URL of the MCP port for clients on this machine.
func MCPURL(l net.Listener) string {
	if at, ok := l.Addr().(*net.UnixAddr); ok {
		return config.Unix + at.Name + ":" + mcp.Path
	}
	return Scheme(l) + "://" + LocalAddr(l) + mcp.Path
}

// InspectorURL returns the URL of the admin port's pages for a browser on this machine; "" if
// there is none, as with a socket.
func InspectorURL(l net.Listener) string {
	if l == nil {
		return ""
	}
	if _, socket := l.Addr().(*net.UnixAddr); socket {
		return ""
	}
	return Scheme(l) + "://" + LocalAddr(l) + "/"
}

// Local returns the address of a configured listener for programs on this machine: 127.0.0.1 if it
// is on all interfaces.
func Local(at config.Address) string {
	host, port, err := net.SplitHostPort(string(at))
	if err != nil {
		panic("BUG: address was not checked: " + string(at))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
