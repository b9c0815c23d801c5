//go:build !linux

package transport

import "sidenote/proxy/panics"

// A hangupWatcher watches nothing on this system; watchHangup is used instead.
type hangupWatcher struct{ panicked panics.Handler }

func (*hangupWatcher) add(*clientConn) {}

func (*hangupWatcher) forget(*clientConn) {}

func (*hangupWatcher) close() {}
