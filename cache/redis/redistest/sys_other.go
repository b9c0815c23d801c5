//go:build !linux

package redistest

import (
	"errors"
	"net"
	"os"
	"os/exec"
)

var errNotHere = errors.New("needs Linux")

func freeze(*os.Process) error             { return errNotHere }
func thaw(*os.Process) error               { return errNotHere }
func endWithTests(*exec.Cmd)               {}
func shrinkBacklog(*net.TCPListener) error { return errNotHere }
