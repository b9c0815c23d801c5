package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Unix begins the address of a unix socket: unix:/run/sidenote.sock.
const Unix = "unix:"

// maxSocket is how long the path of a socket may be, in bytes: systems take 103 to 107.
const maxSocket = 100

// checkSocket refuses a path that is none of a unix socket.
func checkSocket(path string) error {
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ":\x00"):
		return fmt.Errorf("%q is not the path of a socket; write it from the root on, as in unix:/run/sidenote.sock", path)
	case len(path) > maxSocket:
		return fmt.Errorf("%q has %d bytes, and systems take %d in the path of a socket", path, len(path), maxSocket)
	}
	return nil
}
