package answers

import (
	"sync"
	"time"

	"sidenote/proxy/panics"
)

// Beat is how often a stream that has nothing to say is kept alive: idle timeouts of clients and
// proxies are ten seconds or more.
const Beat = 5 * time.Second

// While does something, and calls comment meanwhile, first after a time and then with each Beat, which
// writes something that clients pass over; nil: nothing is written. The two never run at the same time with what follows
// While. If comment fails it is not called again, and its error is returned.
func While(panicked panics.Handler, first time.Duration, comment func() error, do func()) error {
	if comment == nil {
		panics.Guard(panicked, do)
		return nil
	}
	var mu sync.Mutex // of what follows, and of what is written
	var beats *time.Timer
	var over bool
	var err error
	tick := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if err = comment(); err == nil { // or the client has left, which ends what is done
			beats.Reset(Beat)
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
