package folder

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A scan is one look at everything. A folder is watched before it is read, so that
// whatever comes into it is either found or reported as an event.
type scan struct {
	seen
	w    *watcher
	real string
	hash maphash.Hash // of the way to the folder and of what was found in it
}

// run scans what is at path, if anything.
func (s *scan) run(ctx context.Context, path string) {
	var info fs.FileInfo
	var err error
	for range maxTries {
		s.real, info, err = s.resolve(path)
		if !errors.Is(err, errVanished) {
			break
		}
	}
	if err != nil {
		s.write("missing: " + err.Error())
		return
	}
	if !info.IsDir() {
		s.name(s.real)
	}
	maphash.WriteComparable(&s.hash, s.w.walk(ctx, s.enter))
}

// enter watches a folder of the walk, by its path below the folder.
func (s *scan) enter(rel string) {
	dir := filepath.Join(s.real, filepath.FromSlash(rel))
	if watched, _ := s.w.add(dir); watched {
		s.dirs[dir] = true
	}
}

// name makes what is at path count, in its folder. It tells whether the folder is there.
func (s *scan) name(path string) bool {
	dir := filepath.Dir(path)
	s.names[path] = true
	watched, exists := s.w.add(dir)
	if watched && !s.dirs[dir] {
		s.dirs[dir] = false
	}
	return exists
}

const (
	maxWatchLinks = 40 // followed on the way, as the kernel does
	maxTries      = 10 // to follow a path that changes meanwhile
)

var (
	errCircle   = errors.New("the link leads in a circle")
	errVanished = errors.New("the way vanished")
)

// resolve follows path to the file or folder at its end, and watches the links on the way.
// Where something on the way is missing, it watches for it to come.
func (s *scan) resolve(path string) (real string, info fs.FileInfo, err error) {
	done, left := split(path)
	for links := 0; ; {
		if info, err = os.Lstat(done); err != nil {
			if !s.await(done) {
				return "", nil, errVanished
			}
			if info, err = os.Lstat(done); err != nil {
				return "", nil, err
			}
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxWatchLinks {
				return "", nil, errCircle
			}
			target, err := s.follow(done)
			if err != nil {
				return "", nil, err
			}
			var rest []string
			if done = filepath.Dir(done); filepath.IsAbs(target) {
				done, rest = split(target)
			} else {
				rest = strings.Split(filepath.ToSlash(target), "/")
			}
			left = append(rest, left...)
		}
		if left = slices.DeleteFunc(left, func(part string) bool { return part == "" || part == "." }); len(left) == 0 {
			if info.Mode()&fs.ModeSymlink == 0 {
				return done, info, nil
			}
			continue // a link to the very top
		}
		done, left = filepath.Join(done, left[0]), left[1:]
	}
}

// await watches for what is missing at path, and tells whether it could come.
func (s *scan) await(path string) bool {
	dir := filepath.Dir(path)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return s.name(dir) // a file is in the way
	}
	return s.name(path)
}

// follow watches a link and reads it.
func (s *scan) follow(link string) (target string, err error) {
	s.name(link)
	if target, err = os.Readlink(link); err == nil {
		s.write(target)
	}
	return target, err
}

// split takes an absolute path apart: the top, and the names below.
func split(path string) (top string, names []string) {
	top = filepath.VolumeName(path) + string(filepath.Separator)
	return top, strings.Split(filepath.ToSlash(path[min(len(top), len(path)):]), "/")
}

func (s *scan) write(text string) { maphash.WriteComparable(&s.hash, text) }
