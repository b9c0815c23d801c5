package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// freshSuffix is the suffix of a file that is being written.
const freshSuffix = ".new"

// writeWhole writes a complete file, replacing an existing one, or changes nothing. step is called
// before each change.
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

// writeNew creates a file and syncs it; it calls written before the sync. The file is never
// readable for other users.
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

// tighten removes the permissions that older releases gave other users on a folder and our files
// in it, if this user owns them. The folder itself is left alone if it contains other files or is
// one like /tmp, because other users may need it.
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
		case strings.HasPrefix(name, tokenName): // a token that others may have read is useless
		default:
			alone = false
		}
	}
	if info, err := os.Stat(dir); alone && err == nil && info.Mode()&fs.ModeSticky == 0 {
		forOwner(dir, fs.FileInfoToDirEntry(info))
	}
}

// forOwner removes the permissions of others on a file or folder, if this user owns it. If that
// fails, as on a read-only mount, it is used as it is.
func forOwner(path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() || !owned(info) || !shared(info) {
		return
	}
	_ = os.Chmod(path, info.Mode()&^0o077)
}
