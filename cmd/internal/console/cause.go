package console

import (
	"errors"
	"net"
	"net/url"
)

// Cause is the reason of a network error without the address, which the message that it
// goes into names already.
func Cause(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
