//go:build !unix

package extract_test

import (
	"testing"
	"time"
)

var started = time.Now()

func processorTime(*testing.T) time.Duration { return time.Since(started) }
