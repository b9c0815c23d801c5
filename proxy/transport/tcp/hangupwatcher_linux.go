package tcp

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sidenote/proxy/panics"
)

// A HangupWatcher calls a function when a client hangs up. Each connection of a server is in its
// epoll set from the start. The set reports only hang-ups, each once, and a single goroutine waits
// for it. So a request pays only for reading a flag; a goroutine per connection would keep a stack
// as long as a stream is open. The goroutine starts with the first connection.
type HangupWatcher struct {
	Panicked panics.Handler // called for panics of the callbacks
	begin    sync.Once
	set      *os.File // the epoll set; nil if it could not be created
	raw      syscall.RawConn
	ended    chan struct{}

	mu      sync.Mutex
	last    uint64
	clients map[uint64]func() // callbacks by token, because when an event is read its descriptor may already belong to another connection
}

func (l *HangupWatcher) start() {
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
	if err != nil || set.SetReadDeadline(time.Time{}) != nil { // the runtime cannot wait for it
		_ = set.Close()
		return
	}
	l.set, l.raw, l.ended, l.clients = set, raw, make(chan struct{}), map[uint64]func(){}
	panics.Go(l.Panicked, l.run, func() { close(l.ended) })
}

// Close stops the watcher and waits for it.
func (l *HangupWatcher) Close() {
	l.begin.Do(func() {}) // a later Add does not start it
	if l.set != nil {
		_ = l.set.Close()
		<-l.ended
	}
}

// Add watches conn until Forget is called: onGone is called once, when the peer closes its side. It
// returns a token for the watch, 0 if the connection cannot be watched.
func (l *HangupWatcher) Add(conn *Conn, onGone func()) (token uint64) {
	if l.begin.Do(l.start); l.set == nil {
		return 0
	}
	l.mu.Lock()
	l.last++
	token = l.last
	l.clients[token] = onGone
	l.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(uint32(token)), Pad: int32(token >> 32)} //nolint:gosec // its halves
	if l.control(conn.Raw, unix.EPOLL_CTL_ADD, &event) != nil {
		l.Forget(token)
		return 0
	}
	return token
}

// Forget stops a watch when its connection closes, which removes the descriptor from the set.
func (l *HangupWatcher) Forget(token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, token)
}

func (l *HangupWatcher) control(raw syscall.RawConn, operation int, event *unix.EpollEvent) error {
	var err error
	outer := l.raw.Control(func(set uintptr) {
		inner := raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(set), operation, int(fd), event) }) //nolint:gosec // descriptors are ints
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

func (l *HangupWatcher) run() {
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
			l.notify(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32) //nolint:gosec // its halves
		}
	}
}

// notify calls the callback of the connection with this token, unless it has closed.
func (l *HangupWatcher) notify(token uint64) {
	defer panics.Recover(l.Panicked, nil) // the other connections stay watched
	if onGone := l.find(token); onGone != nil {
		onGone()
	}
}

// find returns the callback of the connection with this token, nil if it has closed.
func (l *HangupWatcher) find(token uint64) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[token]
}

// ready returns the number of pending events, read without waiting.
func ready(set int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(set, events, 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}
