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

// A worker is a running pdfium. One goroutine at a time uses it; cancel may be called by any.
type worker struct {
	pdfium.Pdfium
	pool   pdfium.Pool // of this worker alone: a pool has one context, by which it is interrupted
	cancel context.CancelFunc
	memory *memory
}

// pageSize is that of WebAssembly.
const pageSize = 64 << 10

// startTime bounds how long compiling may take; on a busy machine that is many seconds.
const startTime = 5 * time.Minute

// start starts a worker whose memory has at most so many bytes.
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
		// Every turn of a loop checks for the end of the context, which makes reading take two
		// to three times the processor time. Nothing else ends a file that makes pdfium loop.
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

// close ends a worker, which reads nothing any more.
func (w *worker) close() {
	w.cancel()
	_ = w.pool.Close()
	w.memory.release()
}
