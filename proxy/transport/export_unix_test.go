//go:build unix

package transport

// LookPortably makes u see hang-ups as it would on a Unix that is not Linux.
func LookPortably(u *Upstream) { u.lookout, u.hungUp, u.reusable = nil, peekHungUp, peekReusable }
