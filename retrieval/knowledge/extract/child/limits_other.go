//go:build !linux

package child

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"time"
)

// Elsewhere than on Linux the limits are kept by the child itself, and the time by
// its parent too.

func isolate(*exec.Cmd) {}

func outOfTime(exit *exec.ExitError) bool { return false }

// exitMemory is the exit code of a child that took too much memory.
const exitMemory = 71

// watchEvery is how often a child looks at its memory.
const watchEvery = 50 * time.Millisecond

func limit() error {
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		for range time.Tick(watchEvery) {
			if metrics.Read(sample); sample[0].Value.Uint64() > maxMemory*shadows {
				_, _ = os.Stderr.WriteString("out of memory\n")
				os.Exit(exitMemory)
			}
		}
	}()
	runtime.Gosched()
	return nil
}

// limitOther leaves another program without limits but for those on its time and
// on what it writes, which its parent keeps.
func limitOther(int) error { return nil }
