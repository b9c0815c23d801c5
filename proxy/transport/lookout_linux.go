package transport

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A lookout sees clients hang up: all of them are in one epoll set, for which one
// goroutine waits as for any other descriptor. A goroutine for each would have a stack
// for each, as long as its stream is open. It starts with its first watch.
type lookout struct {
	begin sync.Once
	set   *os.File // nil where the system gives none
	raw   syscall.RawConn
	ended chan struct{}

	mu      sync.Mutex
	last    uint64
	watches map[uint64]*watched // by what the set knows them as; a descriptor may be another's by then
}

// A watched is one client.
type watched struct {
	mu     sync.Mutex // held while onGone runs
	over   bool
	onGone func()
}

func (w *watched) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.over = true
		w.onGone()
	}
}

func (l *lookout) start() {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return
	}
	if unix.SetNonblock(fd, true) != nil {
		_ = unix.Close(fd)
		return
	}
	set := os.NewFile(uintptr(fd), "epoll") //nolint:gosec // a descriptor is not negative
	raw, err := set.SyscallConn()
	if err != nil || set.SetReadDeadline(time.Time{}) != nil { // it could not be waited for
		_ = set.Close()
		return
	}
	l.set, l.raw, l.ended, l.watches = set, raw, make(chan struct{}), map[uint64]*watched{}
	go l.run()
}

// close ends the lookout and waits for it.
func (l *lookout) close() {
	l.begin.Do(func() {}) // nothing starts any more
	if l.set != nil {
		_ = l.set.Close()
		<-l.ended
	}
}

// watch is watchHangup for a connection that has a descriptor; ok is false where it
// cannot be watched in this way.
func (l *lookout) watch(conn *tcpConn, onGone func()) (stop func(), ok bool) {
	l.begin.Do(l.start)
	if l.set == nil {
		return nil, false
	}
	w := &watched{onGone: onGone}
	l.mu.Lock()
	l.last++
	token := l.last
	l.watches[token] = w
	l.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(token)), Pad: int32(token >> 32)} //nolint:gosec // its halves
	if l.control(conn.raw, unix.EPOLL_CTL_ADD, &event) != nil {
		l.forget(token)
		return nil, false
	}
	return func() {
		_ = l.control(conn.raw, unix.EPOLL_CTL_DEL, nil) // a closed one has left the set
		l.forget(token)
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
	}, true
}

func (l *lookout) control(raw syscall.RawConn, operation int, event *unix.EpollEvent) error {
	var err error
	outer := l.raw.Control(func(set uintptr) {
		inner := raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(set), operation, int(fd), event) }) //nolint:gosec // descriptors are ints
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

// forget returns what a token stood for, nil if that is over.
func (l *lookout) forget(token uint64) *watched {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[token]
	delete(l.watches, token)
	return w
}

func (l *lookout) run() {
	defer close(l.ended)
	var events [64]unix.EpollEvent
	for {
		n := 0
		err := l.raw.Read(func(set uintptr) bool {
			n = ready(int(set), events[:]) //nolint:gosec // a descriptor is an int
			return n > 0
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:n] {
			if w := l.forget(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); w != nil { //nolint:gosec // its halves
				w.gone()
			}
		}
	}
}

// ready returns how many events there are now.
func ready(set int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(set, events, 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}
