//go:build !unix

package knowledgetest

import (
	"testing"
	"time"
)

var started = time.Now()

// CPU is the time since the start: what the process has taken of the processors is not known.
func CPU(testing.TB) time.Duration { return time.Since(started) }
