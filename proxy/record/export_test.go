package record

import (
	"io"
	"io/fs"
)

// The parts of a Recorder that tests replace.
type (
	FileSystem = fileSystem
	File       = file
	Disk       = disk
)

// On returns o with another file system.
func (o Options) On(files FileSystem) Options {
	o.files = files
	return o
}

// Limits of a Recorder.
const (
	MaxQueue     = maxQueue
	MaxRecent    = maxRecent
	RetryAfter   = retryAfter
	KeepShare    = keepShare
	SegmentShare = segmentShare
)

// SlowDisk is the problem of requests that are dropped.
const SlowDisk = slowDisk

// Each calls do before each operation on files; its error is that of the operation. wrote is called
// after each.
type Each struct {
	FileSystem
	Do    func(op, path string) error
	Wrote func()
}

func (e Each) done() {
	if e.Wrote != nil {
		e.Wrote()
	}
}

func (e Each) MkdirAll(dir string) error {
	if err := e.Do("mkdir", dir); err != nil {
		return err
	}
	return e.FileSystem.MkdirAll(dir)
}

func (e Each) Lock(path string) (io.Closer, error) {
	if err := e.Do("lock", path); err != nil {
		return nil, err
	}
	return e.FileSystem.Lock(path)
}

func (e Each) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := e.Do("list", dir); err != nil {
		return nil, err
	}
	return e.FileSystem.ReadDir(dir)
}

func (e Each) Open(path string) (File, error) {
	if err := e.Do("open", path); err != nil {
		return nil, err
	}
	f, err := e.FileSystem.Open(path)
	return eachFile{f, path, e}, err
}

func (e Each) Create(path string) (File, error) {
	if err := e.Do("create", path); err != nil {
		return nil, err
	}
	defer e.done()
	f, err := e.FileSystem.Create(path)
	return eachFile{f, path, e}, err
}

func (e Each) Rename(from, to string) error {
	if err := e.Do("rename", from); err != nil {
		return err
	}
	defer e.done()
	return e.FileSystem.Rename(from, to)
}

func (e Each) Remove(path string) error {
	if err := e.Do("remove", path); err != nil {
		return err
	}
	return e.FileSystem.Remove(path)
}

func (e Each) SyncDir(dir string) error {
	if err := e.Do("sync folder", dir); err != nil {
		return err
	}
	return e.FileSystem.SyncDir(dir)
}

type eachFile struct {
	File
	path string
	each Each
}

// Write writes half of p before an error, as a full disk does.
func (f eachFile) Write(p []byte) (int, error) {
	defer f.each.done()
	if err := f.each.Do("write", f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f eachFile) Sync() error {
	if err := f.each.Do("sync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f eachFile) Close() error {
	err := f.each.Do("close", f.path)
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	return err
}

// Known reports whether a request of a tenant can get feedback.
func (r *Recorder) Known(tenant, id string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(tenant, id) != nil
}
