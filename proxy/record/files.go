package record

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"

	"sidenote/cache/budget"
)

// A fileSystem has the operations on files that a ring needs. Tests let them fail.
type fileSystem interface {
	MkdirAll(dir string) error // for the owner only
	Lock(path string) (io.Closer, error)
	ReadDir(dir string) ([]fs.DirEntry, error)
	Open(path string) (file, error)
	Create(path string) (file, error) // which does not exist yet, for the owner only
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(dir string) error
}

// A file is an open file.
type file interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Sync() error
	Stat() (fs.FileInfo, error)
}

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// disk is the fileSystem of the operating system.
type disk struct{}

// MkdirAll makes a folder, and takes the rights of others on one that exists.
func (disk) MkdirAll(dir string) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return err
	}
	return os.Chmod(dir, folderMode)
}

// Lock locks a file until it is closed, or returns budget.ErrInUse. The system also releases the lock
// when the process ends.
func (disk) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := budget.LockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (disk) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

func (disk) Open(path string) (file, error) { return os.Open(path) }

func (disk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) Remove(path string) error { return os.Remove(path) }

// SyncDir makes the names in a folder durable. Windows has no such operation, and writes them
// through.
func (disk) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// readAll reads a whole file of at most most bytes.
func readAll(of fileSystem, path string, most int64) ([]byte, error) {
	f, err := of.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.NewSectionReader(f, 0, most))
}
