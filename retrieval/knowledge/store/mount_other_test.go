//go:build unix && !linux

package store_test

import (
	"errors"
	"testing"
)

func mountSmall(*testing.T, string) error { return errors.ErrUnsupported }
