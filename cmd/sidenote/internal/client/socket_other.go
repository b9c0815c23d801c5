//go:build !linux && !darwin

package client

import (
	"errors"
	"net"
)

// checkListener cannot tell on this system who listens.
func checkListener(*net.UnixConn, string) error {
	return errors.New("this system does not say whose a unix socket is; let the admin port listen at host:port")
}
