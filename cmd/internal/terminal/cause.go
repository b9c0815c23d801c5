package terminal

import (
	"errors"
	"net"
	"net/url"
)

// Cause returns a network error without its address, which the message already contains.
func Cause(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
