//go:build !unix

package enginetest

import (
	"errors"
	"syscall"
)

const (
	crash = syscall.Signal(iota)
	freeze
	thaw
)

func send(int, syscall.Signal) error { return errors.New("needs signals of Unix") }
