package transport

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sidenote/proxy/panics"
)

// A hangupWatcher calls clientConn.hungUp when a client hangs up. Each connection of a
// server is in its epoll set from the start. The set reports hang-ups only, each once,
// and one goroutine waits for it as for any other descriptor. So a request pays only
// for reading a flag; a goroutine for each connection would keep a stack for as long as
// a stream is open. The goroutine starts with the first connection.
type hangupWatcher struct {
	panicked panics.Handler // takes panics of hungUp
	begin    sync.Once
	set      *os.File // the epoll set; nil if the system gave none
	raw      syscall.RawConn
	ended    chan struct{}

	mu      sync.Mutex
	last    uint64
	clients map[uint64]*clientConn // by token. When an event is read its descriptor may belong to another connection already
}

func (l *hangupWatcher) start() {
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
	l.set, l.raw, l.ended, l.clients = set, raw, make(chan struct{}), map[uint64]*clientConn{}
	panics.Go(l.panicked, l.run, func() { close(l.ended) })
}

// close ends the hangup watcher and waits for it.
func (l *hangupWatcher) close() {
	l.begin.Do(func() {}) // a later add does not start it any more
	if l.set != nil {
		_ = l.set.Close()
		<-l.ended
	}
}

// add watches a connection until forget is called, if it is plain TCP.
func (l *hangupWatcher) add(c *clientConn) {
	tcp, ok := tcpOf(c)
	if l.begin.Do(l.start); !ok || l.set == nil {
		return
	}
	l.mu.Lock()
	l.last++
	c.token = l.last
	l.clients[c.token] = c
	l.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(uint32(c.token)), Pad: int32(c.token >> 32)} //nolint:gosec // its halves
	if l.control(tcp.raw, unix.EPOLL_CTL_ADD, &event) != nil {
		l.forget(c)
		c.token = 0
	}
}

// forget is called when a connection closes. Closing takes its descriptor out of the
// set.
func (l *hangupWatcher) forget(c *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, c.token)
}

func (l *hangupWatcher) control(raw syscall.RawConn, operation int, event *unix.EpollEvent) error {
	var err error
	outer := l.raw.Control(func(set uintptr) {
		inner := raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(set), operation, int(fd), event) }) //nolint:gosec // descriptors are ints
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

func (l *hangupWatcher) run() {
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

// notify tells the connection with this token of the hang-up, unless it has closed.
func (l *hangupWatcher) notify(token uint64) {
	defer panics.Recover(l.panicked, nil) // the other connections stay watched
	if c := l.find(token); c != nil {
		c.hungUp()
	}
}

// find returns the connection with this token, nil if it has closed.
func (l *hangupWatcher) find(token uint64) *clientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[token]
}

// ready reads the events that there are, without waiting, and returns their number.
func ready(set int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(set, events, 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}
