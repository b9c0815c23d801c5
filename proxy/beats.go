package proxy

import (
	"sync"
	"time"

	"sidenote/proxy/panics"
)

// Heartbeat is the interval of comments on an idle stream. Idle timeouts of clients and proxies are ten
// seconds or more.
const Heartbeat = 5 * time.Second

// WithHeartbeat runs do. Meanwhile it calls comment, first after the duration first and then every
// Heartbeat, to write something that clients ignore. comment may be nil. It is not running when
// WithHeartbeat returns. If comment fails it is not called again, and its error is returned.
func WithHeartbeat(panicked panics.Handler, first time.Duration, comment func() error, do func()) error {
	if comment == nil {
		panics.Guard(panicked, do)
		return nil
	}
	var mu sync.Mutex // guards over, err and comment
	var beats *time.Timer
	var over bool
	var err error
	tick := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if err = comment(); err == nil { // an error means that the client has left, which ends do
			beats.Reset(Heartbeat)
		}
	}
	mu.Lock()
	beats = panics.AfterFunc(panicked, first, tick)
	mu.Unlock()
	defer beats.Stop()
	panics.Guard(panicked, do)
	mu.Lock()
	defer mu.Unlock()
	over = true
	return err
}
