package watch

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A scan is one walk through everything. A folder is watched before it is read, so that
// whatever comes into it is either found or reported as an event.
type scan struct {
	seen
	w    *watcher
	real string
	hash maphash.Hash // of all that counts: paths, and for files what tells versions apart
}

func newScan(w *watcher) *scan {
	s := &scan{seen: seen{dirs: map[string]bool{}, names: map[string]bool{}}, w: w}
	s.hash.SetSeed(w.seed)
	return s
}

// run scans what is at path, if anything.
func (s *scan) run(ctx context.Context, path string) {
	var info fs.FileInfo
	var err error
	for range maxTries {
		s.real, info, err = s.resolve(path, "")
		if !errors.Is(err, errVanished) {
			break
		}
	}
	switch {
	case err != nil:
		s.write("missing: " + reasonOf(err))
	case info.IsDir():
		s.tree(ctx, s.real)
	default:
		s.name(s.real)
		s.file(path, info)
	}
}

// tree scans a folder.
func (s *scan) tree(ctx context.Context, dir string) {
	if ctx.Err() != nil {
		return
	}
	if watched, _ := s.w.add(dir); watched {
		s.dirs[dir] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.write("unreadable: " + reasonOf(err))
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		rel := s.rel(name)
		if s.w.ignored(rel, e.IsDir()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone by now
		}
		switch {
		case e.IsDir():
			s.write(rel, "dir")
			s.number(uint64(info.Mode()))
			s.tree(ctx, name)
		case e.Type()&fs.ModeSymlink != 0:
			s.link(rel, name)
		default:
			s.file(rel, info)
		}
	}
}

// link scans a link below the folder. Where it leads out of it, only the link counts.
func (s *scan) link(rel, name string) {
	s.write(rel, "link")
	if target, info, err := s.resolve(name, s.real); err != nil {
		s.write(reasonOf(err))
	} else if !info.IsDir() {
		s.name(target)
		s.file(s.rel(target), info)
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

func (s *scan) rel(name string) string {
	rel, err := filepath.Rel(s.real, name)
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

const (
	maxLinks = 40 // followed on the way, as the kernel does
	maxTries = 10 // to follow a path that changes meanwhile
)

var (
	errLeaves   = errors.New("the link leaves the folder")
	errCircle   = errors.New("the link leads in a circle")
	errVanished = errors.New("the way vanished")
)

// resolve follows path to the file or folder at its end, and watches the links on the way.
// Where something on the way is missing, it watches for it to come. within, if not "", is a
// folder without links that the way must not leave.
func (s *scan) resolve(path, within string) (real string, info fs.FileInfo, err error) {
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
			if links++; links > maxLinks {
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
		if within != "" && done != within && !below(done, within) && !below(within, done) {
			return "", nil, errLeaves
		}
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

// below tells whether path is in the folder dir, at any depth.
func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && strings.HasPrefix(rest, string(filepath.Separator))
}

// file adds a file to the digest: what tells one version of it from the next.
func (s *scan) file(rel string, info fs.FileInfo) {
	s.write(rel)
	s.number(uint64(info.Mode()))
	if info.Mode().IsRegular() {
		s.number(uint64(info.Size()))
		s.number(uint64(info.ModTime().UnixNano()))
		s.number(inode(info))
	}
}

func (s *scan) write(texts ...string) {
	for _, t := range texts {
		s.number(uint64(len(t)))
		_, _ = s.hash.WriteString(t) // never fails
	}
}

func (s *scan) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = s.hash.Write(b[:]) // never fails
}

// reasonOf is an error without the path.
func reasonOf(err error) string {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
