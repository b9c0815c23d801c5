package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Unix is the prefix of unix socket addresses: unix:/run/sidenote.sock.
const Unix = "unix:"

// maxSocket limits the path of a socket, in bytes: systems accept 103 to 107.
const maxSocket = 100

// checkSocket refuses a path that cannot be that of a unix socket.
func checkSocket(path string) error {
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ":\x00"):
		return fmt.Errorf("%q is not the path of a socket; write it from the root on, as in unix:/run/sidenote.sock", path)
	case len(path) > maxSocket:
		return fmt.Errorf("%q has %d bytes, and systems take %d in the path of a socket", path, len(path), maxSocket)
	}
	return nil
}
