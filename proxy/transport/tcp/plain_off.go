//go:build !sidenote_plain

package tcp

// plain disables optimizations of connections.
const plain = false
