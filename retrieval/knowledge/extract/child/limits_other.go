//go:build !linux

package child

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"time"
)

// On other systems than Linux the child watches its own limits; its parent watches the
// time too.

func isolate(*exec.Cmd) {}

func outOfTime(exit *exec.ExitError) bool { return false }

// exitMemory is the exit code of a child that used too much memory.
const exitMemory = 71

// watchEvery is how often a child checks its memory.
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

// limitOther does nothing: of another program only time and output are limited, by its
// parent.
func limitOther(int) error { return nil }
