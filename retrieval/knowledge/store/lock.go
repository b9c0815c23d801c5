package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// lockName is the file in the folder that its writer holds a lock on.
const lockName = "lock"

// errHeld says that somebody else has the lock.
var errHeld = errors.New("lock is held")

// acquire makes this process the writer of dir, or returns a *LockedError. The
// lock dies with the process; the file stays.
func acquire(dir, address string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	if err := lockPast(f); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock state folder %s: %w", dir, err)
		}
		return nil, lockedBy(dir, f)
	}
	host, _ := os.Hostname() // only for people
	text, err := json.Marshal(LockedError{PID: os.Getpid(), Host: host, Address: address})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	// On a full disk it is left out: what the folder holds can still be read.
	if err = full(err); err != nil && !errors.Is(err, ErrFull) {
		_ = f.Close()
		return nil, fmt.Errorf("lock state folder %s: %w", dir, err)
	}
	return f, nil
}

// lookWait bounds how long a writer waits for processes that look whether there is one.
const lookWait = time.Second

// lockPast takes the lock of an open file, and waits while others share it for a moment to
// see whether somebody has it.
func lockPast(f *os.File) error {
	for end := time.Now().Add(lookWait); ; {
		err := lockFile(f)
		if !errors.Is(err, errHeld) || held(f) || time.Now().After(end) {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// held tells whether somebody else has the lock of an open file.
func held(f *os.File) bool {
	err := shareFile(f)
	if err == nil {
		err = unlockFile(f)
	}
	return errors.Is(err, errHeld)
}

func lockedBy(dir string, f *os.File) *LockedError {
	who := &LockedError{Dir: dir}
	if text, err := io.ReadAll(io.LimitReader(f, 4096)); err == nil {
		_ = json.Unmarshal(text, who) // a holder that is just starting has not written yet
	}
	return who
}

// Writer returns what the writer of dir says of itself. It is nil if nobody has the lock,
// whatever a writer that was killed left in the file, or if the writer has just started
// and has not written it yet. A writer that starts is not kept from it.
func Writer(dir string) *LockedError {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if !held(f) {
		return nil
	}
	if who := lockedBy(dir, f); who.PID != 0 {
		return who
	}
	return nil
}

// release lets the next writer in. It unlocks before it closes the file: a child process
// that is just being started has the file open, too, until it runs its program.
func release(f *os.File) error {
	return errors.Join(f.Truncate(0), unlockFile(f), f.Close())
}
