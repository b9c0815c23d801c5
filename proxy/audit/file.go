package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// A File appends lines to a file that only its owner may read, and that others may move away or
// remove at any time: the next line is then in a new one. It is safe for concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File // nil if it is not open
	torn bool     // the last line was written in part
}

// NewFile returns a File. Nothing is opened yet.
func NewFile(path string) *File { return &File{path: path} }

// Open opens the file, unless it is open.
func (f *File) Open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open()
}

// open opens the file if it is not open or is no longer at its path.
func (f *File) open() error {
	if f.file != nil {
		here, err := os.Stat(f.path)
		open, openErr := f.file.Stat()
		if err == nil && openErr == nil && os.SameFile(here, open) {
			return nil
		}
		f.close()
	}
	// A pipe is opened without waiting for a reader, and then refused.
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", f.path), err, file.Close())
	}
	f.file, f.torn = file, false
	return nil
}

// close closes the file; lines in it are complete already.
func (f *File) close() {
	_ = f.file.Close()
	f.file = nil
}

// Write appends a line, which ends in a line feed.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return 0, err
	}
	text := line
	if f.torn {
		text = append([]byte{'\n'}, line...)
	}
	n, err := f.file.Write(text)
	if err != nil {
		f.torn = f.torn || n > 0
		return min(n, len(line)), err
	}
	f.torn = false
	return len(line), nil
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}
