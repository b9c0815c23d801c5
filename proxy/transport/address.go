package transport

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
)

// AddressOf returns the address of a connection's peer; the zero Addr if it has none, as on a unix
// socket.
func AddressOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// AddressWithin reports whether one of networks contains addr.
func AddressWithin(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ClientAddress returns the address of a request's client. peer is the address of the connection,
// and forwarded are the request's X-Forwarded-For lines, to which each proxy appends the address
// that called it. Only what trusted proxies appended counts: entries are read from the end as long
// as the address reached so far is trusted. An entry that is not an address ends the search too.
func ClientAddress(peer netip.Addr, trusted []netip.Prefix, forwarded [][]byte) netip.Addr {
	for _, line := range slices.Backward(forwarded) {
		for more := true; more; {
			if !AddressWithin(trusted, peer) {
				return peer
			}
			i := bytes.LastIndexByte(line, ',')
			before, ok := parse(line[i+1:])
			if !ok {
				return peer
			}
			peer = before
			line, more = line[:max(i, 0)], i >= 0
		}
	}
	return peer
}

// longest is the length in bytes of the longest entry: IPv6 with a zone, brackets and a port.
const longest = 64

// parse parses an entry: an address, which may have a port and, for IPv6, brackets.
func parse(entry []byte) (addr netip.Addr, ok bool) {
	entry = bytes.TrimSpace(entry)
	if len(entry) > longest {
		return addr, false
	}
	text := string(entry)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		var with netip.AddrPort
		if with, err = netip.ParseAddrPort(text); err == nil {
			addr = with.Addr()
		} else if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' {
			addr, err = netip.ParseAddr(text[1 : len(text)-1])
		}
	}
	return addr.Unmap().WithZone(""), err == nil
}
