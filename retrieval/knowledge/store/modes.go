package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// modesName is the file of the modes that the kill switch has lowered. It stands beside the
// databases, as it must be kept also where they cannot be written.
const modesName = "modes.json"

// maxModes is more than the entries of 10,000 tenants take, in bytes.
const maxModes = 4 << 20

// asideSuffix ends the name of a file that could not be read and is kept.
const asideSuffix = ".damaged"

// SetModesAside renames what ReadModes reads, so that WriteModes does not replace it.
func SetModesAside(dir string) error {
	path := filepath.Join(dir, modesName)
	return os.Rename(path, path+asideSuffix)
}

// ModesAside returns the file that SetModesAside has renamed; "" if there is none, or if
// somebody has removed it.
func ModesAside(dir string) string {
	path := filepath.Join(dir, modesName+asideSuffix)
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}

// ReadModes returns what WriteModes wrote to a state folder, nil if there is nothing.
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

// WriteModes keeps the modes of the kill switch in a state folder, which is made if it is
// not there. After an error those from before are still kept.
func WriteModes(dir string, data []byte) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	path := filepath.Join(dir, modesName)
	_ = os.Remove(path + freshSuffix) // of a process that was killed
	return writeWhole(path, data, func(string) {})
}
