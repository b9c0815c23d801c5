//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import "syscall"

const canWatch = true

func hungUp(fd uintptr) bool { return peekHungUp(fd) }

func reusable(raw syscall.RawConn) bool { return peekReusable(raw) }
