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

// A scan is one pass over the folder. A folder is watched before it is read, so that whatever
// appears in it is either found or reported as an event.
type scan struct {
	seen
	w    *watcher
	real string
	hash maphash.Hash // of the links to the folder and of its contents
}

// run scans the file or folder at path, if it exists.
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

// enter watches a folder found by the walk; rel is its relative path.
func (s *scan) enter(rel string) {
	dir := filepath.Join(s.real, filepath.FromSlash(rel))
	if watched, _ := s.w.add(dir); watched {
		s.dirs[dir] = true
	}
}

// name watches for changes of the given path, and reports whether its folder exists.
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
	maxWatchLinks = 40 // most links followed, as in the kernel
	maxTries      = 10 // attempts to follow a path that changes meanwhile
)

var (
	errCircle   = errors.New("the link leads back to itself")
	errVanished = errors.New("the path changed while it was followed")
)

// resolve follows path to the file or folder at its end, and watches the links on the way. If a
// part is missing, it watches for that part to appear.
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
			continue // a link to the root
		}
		done, left = filepath.Join(done, left[0]), left[1:]
	}
}

// await watches for the missing path to appear, and reports whether its folder exists.
func (s *scan) await(path string) bool {
	dir := filepath.Dir(path)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return s.name(dir) // a file is in the way
	}
	return s.name(path)
}

// follow watches and reads a link.
func (s *scan) follow(link string) (target string, err error) {
	s.name(link)
	if target, err = os.Readlink(link); err == nil {
		s.write(target)
	}
	return target, err
}

// split divides an absolute path into the root and the names below it.
func split(path string) (top string, names []string) {
	top = filepath.VolumeName(path) + string(filepath.Separator)
	return top, strings.Split(filepath.ToSlash(path[min(len(top), len(path)):]), "/")
}

func (s *scan) write(text string) { maphash.WriteComparable(&s.hash, text) }
