package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// modesName is the file of the modes set by the kill switch. It is separate from the databases,
// because it must work even if these cannot be written.
const modesName = "modes.json"

// maxModes is the size limit in bytes, more than 10,000 tenants need.
const maxModes = 4 << 20

// asideSuffix is the suffix of unreadable files that are kept.
const asideSuffix = ".damaged"

// SetModesAside renames the file of modes, so that WriteModes does not replace it.
func SetModesAside(dir string) error {
	path := filepath.Join(dir, modesName)
	return os.Rename(path, path+asideSuffix)
}

// ModesAside returns the path of the file that SetModesAside renamed; "" if it does not exist.
func ModesAside(dir string) string {
	path := filepath.Join(dir, modesName+asideSuffix)
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}

// ReadModes returns what WriteModes wrote to a state folder; nil if there is nothing.
func ReadModes(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, modesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxModes+1))
	if err == nil && len(data) > maxModes {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), maxModes)
	}
	return data, err
}

// WriteModes stores the modes of the kill switch in a state folder, which it creates if necessary.
// On an error the previous modes are kept.
func WriteModes(dir string, data []byte) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	path := filepath.Join(dir, modesName)
	_ = os.Remove(path + freshSuffix) // left by a process that was killed
	return writeWhole(path, data, func(string) {})
}
