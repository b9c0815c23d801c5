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

// lockName is the file in the folder that its writer locks.
const lockName = "lock"

// errHeld means that somebody else holds the lock.
var errHeld = errors.New("lock is held")

// acquire makes this process the writer of dir, or returns a *LockedError. The system releases the
// lock when the process ends; the file remains.
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
	// On a full disk this is skipped, so that the folder can still be read.
	if err = full(err); err != nil && !errors.Is(err, ErrFull) {
		_ = f.Close()
		return nil, fmt.Errorf("lock state folder %s: %w", dir, err)
	}
	return f, nil
}

// lookWait is how long a writer waits for processes that check whether there is a writer.
const lookWait = time.Second

// lockPast takes the lock of an open file. It waits while others share the lock for a moment to
// check whether there is a writer.
func lockPast(f *os.File) error {
	for end := time.Now().Add(lookWait); ; {
		err := lockFile(f)
		if !errors.Is(err, errHeld) || held(f) || time.Now().After(end) {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// held reports whether somebody else holds the lock of an open file.
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
		_ = json.Unmarshal(text, who) // a holder that is just starting has not written it yet
	}
	return who
}

// Writer returns what the writer of dir wrote about itself. It is nil if nobody holds the lock,
// whatever a killed writer left in the file, or if the writer has just started and has not written
// it yet. It does not prevent a writer from starting.
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

// release releases the lock. It unlocks before it closes the file, because a child process that is
// being started has the file open, too, until it executes its program.
func release(f *os.File) error {
	return errors.Join(f.Truncate(0), unlockFile(f), f.Close())
}
