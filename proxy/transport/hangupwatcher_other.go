//go:build !linux

package transport

import "sidenote/proxy/panics"

// A hangupWatcher sees clients hang up without a goroutine for each, where the system has a
// way for that which we know.
type hangupWatcher struct{ panicked panics.Handler }

func (*hangupWatcher) add(*clientConn) {}

func (*hangupWatcher) forget(*clientConn) {}

func (*hangupWatcher) close() {}
