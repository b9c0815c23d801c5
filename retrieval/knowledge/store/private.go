package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// freshSuffix is of a file that is being written.
const freshSuffix = ".new"

// writeWhole leaves a whole file under its name, in place of one that was there, or
// changes nothing. step is called before each change.
func writeWhole(path string, data []byte, step func(string)) error {
	fresh := path + freshSuffix
	step("write")
	err := writeNew(fresh, data, func() { step("sync file") })
	if err == nil {
		step("rename")
		err = os.Rename(fresh, path)
	}
	if err == nil {
		step("sync folder")
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}

// writeNew writes a file that is not there yet, and syncs it; written is called before
// that. Nobody else can read the file at any moment.
func writeNew(path string, data []byte, written func()) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		written()
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// tighten takes away the rights that older releases gave other users on a folder and on
// our files in it, where this user owns them. The folder itself stays as it is if it has
// other files in it or is one like /tmp: other users may need it.
func tighten(dir string) {
	entries, err := os.ReadDir(dir)
	alone := err == nil
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch name := e.Name(); {
		case name == segmentsName:
			images, _ := os.ReadDir(path) // one that cannot be read cannot be ours
			for _, image := range images {
				if isImage(image.Name()) {
					forOwner(filepath.Join(path, image.Name()), image)
				}
			}
			forOwner(path, e)
		case name == lockName, name == codeName, strings.HasPrefix(name, databaseName):
			forOwner(path, e)
		case name == modesName, name == modesName+freshSuffix, name == modesName+asideSuffix:
			forOwner(path, e)
		case strings.HasPrefix(name, tokenName): // useless once others may have read it
		default:
			alone = false
		}
	}
	if info, err := os.Stat(dir); alone && err == nil && info.Mode()&fs.ModeSticky == 0 {
		forOwner(dir, fs.FileInfoToDirEntry(info))
	}
}

// forOwner takes the rights of others on a file or folder away, if this user owns it. One
// that cannot be changed, as on a read-only mount, is used as it is.
func forOwner(path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() || !owned(info) || !shared(info) {
		return
	}
	_ = os.Chmod(path, info.Mode()&^0o077)
}
