package terminal

import (
	"errors"
	"net"
	"net/url"
)

// Cause is the reason of a network error without the address, which the message that it
// goes into names already.
func Cause(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
