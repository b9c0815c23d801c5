package serving

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge/folder"
)

// watch reloads the configuration until ctx ends: when one of its files has changed, when a new
// file matches a pattern, or when a link on the way to a file was changed.
func (r *Reloader) watch(ctx context.Context) {
	seen := r.seen()
	if len(seen) == 0 {
		return // flags only
	}
	top, err := filepath.Abs(filepath.Dir(seen[0]))
	if err != nil {
		r.Log(slog.LevelWarn, fmt.Sprintf("configuration: changes of files are not noticed, only SIGHUP and sidenote reload: %v", err))
		return
	}
	var own ownNames
	walk := func(_ context.Context, enter func(dir string)) uint64 {
		own = ownNames{} // links may have changed
		real, err := filepath.EvalSymlinks(top)
		if err != nil {
			return 0
		}
		for _, dir := range r.folders() {
			if rel, err := filepath.Rel(real, dir); err == nil {
				enter(filepath.ToSlash(rel))
			}
		}
		return r.digest()
	}
	polling := func(why error) {
		r.Log(slog.LevelWarn, fmt.Sprintf("configuration: changes are seen late, by looking now and then: %v", why))
	}
	counts := func(name string) bool { return own.update(r).has(name) }
	err = folder.Watch(ctx, top, walk, counts, polling, func() (again bool) { return r.catchUp(ctx) })
	if err != nil {
		r.Log(slog.LevelWarn, fmt.Sprintf("configuration: %v", err))
	}
}

// maxReadings limits the readings of catchUp. Later changes are noticed as usual.
const maxReadings = 3

// catchUp reloads the configuration until no file has changed since it was read. Events of a file
// that is new in the configuration are only seen after the first reading that names it, so a
// change during that reading must be found here. It reports whether the set of files has changed,
// so that other folders must be watched.
func (r *Reloader) catchUp(ctx context.Context) (others bool) {
	named := r.seen()
	for range maxReadings {
		if ctx.Err() != nil || !r.stale() {
			break
		}
		_, before := r.listed()
		_, _ = r.reload(ctx, byWatcher) // errors are logged
		if _, after := r.listed(); after == before {
			break // nothing was read
		}
	}
	return !slices.Equal(named, r.seen())
}

// stale reports whether the files have changed since they were read.
func (r *Reloader) stale() bool {
	digest := r.digest()
	r.reading.Lock()
	defer r.reading.Unlock()
	return digest != r.loaded
}

func (r *Reloader) seen() []string {
	files, _ := r.listed()
	return files
}

// listed returns the files and patterns of the last reading, and the version of the list.
func (r *Reloader) listed() (files []string, list int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files, r.list
}

// folders lists the folders of the files, both as named and after following links.
func (r *Reloader) folders() []string {
	var dirs []string
	for _, path := range r.seen() {
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		dir := filepath.Dir(path)
		for strings.ContainsAny(dir, config.IsPattern) {
			if matches, err := filepath.Glob(dir); err == nil {
				dirs = append(dirs, matches...)
			}
			dir = filepath.Dir(dir)
		}
		dirs = append(dirs, dir)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// digest returns a digest of the contents of all files and of the matches of patterns.
func (r *Reloader) digest() uint64 {
	d := newDigest()
	for _, path := range r.seen() {
		d.add(path)
	}
	return d.sum()
}

// A digest combines the states of files and patterns, in order.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

// add adds the content of a file, or the matches of a pattern.
func (d digest) add(path string) {
	var state string
	if strings.ContainsAny(path, config.IsPattern) {
		matches, err := filepath.Glob(path)
		state = fmt.Sprint(matches, err)
	} else {
		state = contents(path)
	}
	fmt.Fprintf(d, "%q %q\n", path, state)
}

func (d digest) sum() uint64 { return binary.BigEndian.Uint64(d.Sum(nil)) }

// contents returns a text that changes with the content of a file. Other kinds of files are only
// described: reading a pipe would consume its data.
func contents(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "missing"
	case !info.Mode().IsRegular() || info.Size() > config.MaxFile:
		return fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
	}
	text, err := config.ReadFile(path)
	if err != nil {
		return "not to be read"
	}
	return "text " + string(text)
}
