package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// errOutside says that a path leads out of the folder of the file that names it.
var errOutside = errors.New("lies outside of this file's folder")

// readWithin reads a file that lies in the folder of another, where no link leads
// out of that.
func readWithin(file, path string) (data []byte, err error) {
	err = within(file, path, func(root *os.Root, name string) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		data, err = readAll(f)
		return err
	})
	return data, err
}

// statWithin returns an error where readWithin could read nothing.
func statWithin(file, path string) error {
	return within(file, path, func(root *os.Root, name string) error {
		_, err := root.Stat(name)
		return err
	})
}

// within calls do with the folder of file and the name of path in it.
func within(file, path string, do func(root *os.Root, name string) error) error {
	folder, name, err := split(file, path)
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

// split returns the folder of file and the name of path in it.
func split(file, path string) (folder, name string, err error) {
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

// readAll reads up to a limit, because a file may be a device without end.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, errors.New("larger than 16 MiB")
	}
	return data, err
}
