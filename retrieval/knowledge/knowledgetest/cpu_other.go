//go:build !unix

package knowledgetest

import (
	"testing"
	"time"
)

var started = time.Now()

// CPU returns the time since the start, because processor time is not available.
func CPU(testing.TB) time.Duration { return time.Since(started) }
