//go:build !linux && !darwin

package client

import (
	"errors"
	"net"
)

// checkListener returns an error, because this system does not tell who listens.
func checkListener(*net.UnixConn, string) error {
	return errors.New("this system does not say whose a unix socket is; let the admin port listen at host:port")
}
