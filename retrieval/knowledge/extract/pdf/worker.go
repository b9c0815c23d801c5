package pdf

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// A worker is a running pdfium. It must be used by one goroutine at a time; cancel may be called
// by any.
type worker struct {
	pdfium.Pdfium
	pool   pdfium.Pool // used by this worker only, because a pool has a single context to interrupt it
	cancel context.CancelFunc
	memory *memory
}

// pageSize is the page size of WebAssembly.
const pageSize = 64 << 10

// startTime limits compilation, which takes many seconds on a busy machine.
const startTime = 5 * time.Minute

// start starts a worker with a memory limit in bytes.
func start(compiled wazero.CompilationCache, most int64) (w *worker, err error) {
	mem := &memory{most: most}
	ctx, cancel := context.WithCancel(experimental.WithMemoryAllocator(context.Background(), mem))
	defer func() {
		if err != nil {
			cancel()
			mem.release()
		}
	}()
	defer func() {
		if p := recover(); p != nil { // a damaged file of machine code
			w, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MaxIdle: 1, MaxTotal: 1,
		Stdout: io.Discard, Stderr: io.Discard,
		FSConfig: wazero.NewFSConfig(), // no files
		// Every turn of a loop checks for the end of the context, which makes reading take two to
		// three times the processor time. Nothing else stops a file that makes pdfium loop.
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(compiled).
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling). // pdfium.wasm needs it
			WithMemoryLimitPages(maxMemory / pageSize).WithCloseOnContextDone(true),
	})
	if err != nil {
		return nil, err
	}
	instance, err := pool.GetInstance(startTime)
	if err != nil {
		_ = pool.Close()
		return nil, err
	}
	return &worker{Pdfium: instance, pool: pool, cancel: cancel, memory: mem}, nil
}

// close ends a worker that is not reading.
func (w *worker) close() {
	w.cancel()
	_ = w.pool.Close()
	w.memory.release()
}
