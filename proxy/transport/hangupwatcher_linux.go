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

// A hangupWatcher sees clients hang up: each connection of a server is in one epoll set from
// its first moment, for which one goroutine waits as for any other descriptor. To be
// told costs a request nothing but a look, for the set reports a hang-up once and
// nothing else; a goroutine for each would have a stack for each, as long as its
// stream is open. It starts with its first connection.
type hangupWatcher struct {
	panicked panics.Handler // of what goes wrong in telling a client's exchange
	begin    sync.Once
	set      *os.File // nil where the system gives none
	raw      syscall.RawConn
	ended    chan struct{}

	mu      sync.Mutex
	last    uint64
	clients map[uint64]*clientConn // by what the set knows them as; a descriptor may be another's by then
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
	if err != nil || set.SetReadDeadline(time.Time{}) != nil { // it could not be waited for
		_ = set.Close()
		return
	}
	l.set, l.raw, l.ended, l.clients = set, raw, make(chan struct{}), map[uint64]*clientConn{}
	panics.Go(l.panicked, l.run, func() { close(l.ended) })
}

// close ends the hangup watcher and waits for it.
func (l *hangupWatcher) close() {
	l.begin.Do(func() {}) // nothing starts any more
	if l.set != nil {
		_ = l.set.Close()
		<-l.ended
	}
}

// add takes in a connection, if it has a descriptor, until it is forgotten.
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

// forget is for a connection that closes, which takes it out of the set.
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
			l.tell(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32) //nolint:gosec // its halves
		}
	}
}

// tell tells whom a token stands for, unless that one has closed.
func (l *hangupWatcher) tell(token uint64) {
	defer panics.Recover(l.panicked, nil) // the others go on
	if c := l.find(token); c != nil {
		c.hungUp()
	}
}

// find returns whom a token stands for, nil if that one has closed.
func (l *hangupWatcher) find(token uint64) *clientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[token]
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
