package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Off is the Address of a disabled listener.
const Off = "off"

// An Address is the host:port of a listener, unix:/path of a socket, or Off. An empty host means
// all interfaces, port 0 a free one.
type Address string

// UnmarshalText reads host:port, unix:/path or "off".
func (a *Address) UnmarshalText(text []byte) error {
	s := string(text)
	if path, ok := strings.CutPrefix(s, Unix); ok {
		if err := checkSocket(path); err != nil {
			return err
		}
	} else if s != Off {
		_, port, err := net.SplitHostPort(s)
		if err != nil {
			return fmt.Errorf("%q is not an address; write host:port, as in 127.0.0.1:8080", s)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%q has no port between 0 and 65535", s)
		}
	}
	*a = Address(s)
	return nil
}

// Socket returns the path of a unix socket, or "" for other addresses.
func (a Address) Socket() string {
	path, ok := strings.CutPrefix(string(a), Unix)
	if !ok {
		return ""
	}
	return path
}

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	return a == Off || a.Socket() != "" || err == nil && Loopback(host)
}

// Loopback reports whether a host is this machine only.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// samePort reports whether two listeners would need the same port of the same interface.
func samePort(a, b Address) bool {
	if a.Socket() != "" || b.Socket() != "" {
		return a == b
	}
	hostA, portA, errA := net.SplitHostPort(string(a))
	hostB, portB, errB := net.SplitHostPort(string(b))
	if errA != nil || errB != nil || portNumber(portA) != portNumber(portB) || portNumber(portA) == "0" {
		return false
	}
	return hostA == hostB || every(hostA) || every(hostB) || Loopback(hostA) && Loopback(hostB)
}

// portLeads reports whether requests to an upstream would reach a listener.
func portLeads(u baseURL, to Address) bool {
	if u.Socket != "" || to.Socket() != "" {
		return u.Socket == to.Socket()
	}
	host, own := u.Hostname(), string(to)
	ownHost, ownPort, err := net.SplitHostPort(own)
	if err != nil || portNumber(ownPort) != portOf(u.URL) {
		return false
	}
	local := Loopback(host) || every(host)
	return strings.EqualFold(ownHost, host) || local && (Loopback(ownHost) || every(ownHost))
}

// portOf returns the port of a URL as a number without leading zeros.
func portOf(u *url.URL) string {
	return portNumber(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// portNumber removes leading zeros of a port.
func portNumber(port string) string { return cmp.Or(strings.TrimLeft(port, "0"), "0") }

// every reports whether a listener's host means all interfaces.
func every(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
