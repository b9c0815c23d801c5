package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errOutside means that a path leads out of the folder of the file that names it.
var errOutside = errors.New("lies outside of this file's folder")

// ReadWithin reads a file in the folder of another file, and refuses links that lead out of
// it.
func ReadWithin(file, path string) (data []byte, err error) {
	err = within(file, path, func(root *os.Root, name string) error {
		f, err := root.OpenFile(name, readOnly, 0)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		data, err = readAll(f)
		return err
	})
	return data, err
}

// statWithin returns an error if ReadWithin could not read path.
func statWithin(file, path string) error {
	return within(file, path, func(root *os.Root, name string) error {
		_, err := root.Stat(name)
		return err
	})
}

// within calls do with the folder of file and the name of path in it.
func within(file, path string, do func(root *os.Root, name string) error) error {
	folder, name, err := splitPattern(file, path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	err = do(root, name)
	_, escapes := errors.AsType[*os.PathError](err)
	if _, system := errors.AsType[syscall.Errno](err); escapes && !system {
		return errOutside // the root refused a link, not the system
	}
	return err
}

// splitPattern returns the folder of file and the name of path in it.
func splitPattern(file, path string) (folder, name string, err error) {
	if folder, err = filepath.Abs(filepath.Dir(file)); err != nil {
		return "", "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	if name, err = filepath.Rel(folder, path); err != nil || !filepath.IsLocal(name) {
		return "", "", errOutside
	}
	return folder, name, nil
}

// readOnly opens a pipe without waiting for a writer.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

// pipeWait limits the time to read a pipe.
const pipeWait = 10 * time.Second

// readAll reads a file up to a limit, because it may be an endless device. It does not wait long
// for a pipe without a writer.
func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pipe := info.Mode()&os.ModeNamedPipe != 0
	if !info.Mode().IsRegular() {
		_ = f.SetReadDeadline(time.Now().Add(pipeWait)) // an error means that such files have no deadlines
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("takes longer than %s to be written", pipeWait)
	case err == nil && pipe && len(data) == 0:
		return nil, errors.New("a pipe to which nobody writes")
	case err == nil && len(data) > MaxFile:
		return nil, errors.New("larger than 16 MiB")
	}
	return data, err
}

// MaxFile is the limit of a file in bytes, far more than a configuration or secret needs.
const MaxFile = 16 << 20

// ReadFile is os.ReadFile with a limit, because a path may be an endless device.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, readOnly, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f)
}

// IsPattern holds the characters that make a path a pattern.
const IsPattern = `*?[`

// globFiles is filepath.Glob, but returns an error if the folder cannot be read, unless it does
// not exist.
func globFiles(pattern string) ([]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) > 0 {
		return paths, err
	}
	dir := filepath.Dir(pattern)
	for strings.ContainsAny(dir, IsPattern) {
		dir = filepath.Dir(dir)
	}
	if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, nil
}
