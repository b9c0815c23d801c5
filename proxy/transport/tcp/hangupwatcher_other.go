//go:build !linux

package tcp

import "sidenote/proxy/panics"

// A HangupWatcher watches nothing on this system; WatchHangup is used instead.
type HangupWatcher struct{ Panicked panics.Handler }

// Add watches nothing.
func (*HangupWatcher) Add(*Conn, func()) (token uint64) { return 0 }

// Forget does nothing.
func (*HangupWatcher) Forget(uint64) {}

// Close does nothing.
func (*HangupWatcher) Close() {}
