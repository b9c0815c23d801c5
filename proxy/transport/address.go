package transport

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
)

// AddressOf returns the address of a connection's peer; the zero Addr where it has none, as on a
// unix socket.
func AddressOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// AddressWithin tells whether one of networks holds addr.
func AddressWithin(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ClientAddress returns the address of the client of a request. peer is that of the connection,
// and forwarded are the request's lines of X-Forwarded-For, to which each proxy adds the
// address that it was called from. Only what trusted proxies have added counts: the lines
// are read from their end, as long as the address at which the reader has arrived is
// trusted. An entry that is no address ends that, too.
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

// longest is how long an entry may be, in bytes: IPv6 with a zone, brackets and a port.
const longest = 64

// parse reads an entry: an address, which may have a port; IPv6 may have brackets.
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
