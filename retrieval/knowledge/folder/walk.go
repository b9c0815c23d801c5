package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// A walk finds the files of a folder that must be read.
type walk struct {
	fsys             fs.FS
	root             *os.Root // of fsys; may be nil
	include, exclude []string
	pdf              *pdf.Reader      // if nil, PDF is unsupported
	ocr              *ocr             // if nil, images are unsupported
	enter            func(dir string) // see Look
	files            []string
	asked            map[string]bool // requested files and links, see Source.asked
	versions         map[string]Version
	links            []string // resolved once all files are known
	skipped          []Skip
}

// run fills files and skipped. It fails only if the top folder cannot be read.
func (w *walk) run(ctx context.Context) error {
	if err := w.dir(ctx, ".", nil); err != nil {
		return err
	}
	slices.Sort(w.files)
	known := len(w.files)
	for _, link := range w.links {
		w.link(link, w.files[:known])
	}
	return nil
}

func (w *walk) skip(name string, kind SkipKind, reason string) {
	w.skipped = append(w.skipped, Skip{Path: name, Kind: kind, Reason: reason})
}

// dir walks one folder under the rules of its parents.
func (w *walk) dir(ctx context.Context, name string, inherited ignoreRules) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.enter(name)
	entries, err := fs.ReadDir(w.fsys, name)
	if err != nil {
		if name == "." {
			return fmt.Errorf("read folder: %w", err)
		}
		w.skip(name, SkipUnreadable, reasonOf(err))
	}
	rs := slices.Clip(inherited)
	for _, file := range ignoreFiles {
		rs = append(rs, w.rulesIn(name, file)...)
	}
	info, closeDir := w.infos(name)
	defer closeDir()
	for _, e := range entries {
		file, before := path.Join(name, e.Name()), len(w.files)
		if err := w.entry(ctx, file, e, rs); err != nil {
			return err
		}
		if len(w.files) == before || e.IsDir() {
			continue
		}
		if info, err := info(e); err == nil && info.Mode().IsRegular() {
			w.versions[file] = versionOf(info)
		}
	}
	return nil
}

// infos returns a function that describes the entries of a folder. Through a Root of the folder
// itself that takes a fifth of the time, as nothing on the way to it is opened again.
func (w *walk) infos(dir string) (info func(fs.DirEntry) (fs.FileInfo, error), done func()) {
	if w.root == nil {
		return fs.DirEntry.Info, func() {}
	}
	root, err := w.root.OpenRoot(dir)
	if err != nil {
		return func(fs.DirEntry) (fs.FileInfo, error) { return nil, err }, func() {}
	}
	return func(e fs.DirEntry) (fs.FileInfo, error) { return root.Lstat(e.Name()) }, func() { _ = root.Close() }
}

// rulesIn reads an ignore file. One that cannot be read is reported and ignores nothing.
func (w *walk) rulesIn(dir, file string) ignoreRules {
	name := path.Join(dir, file)
	if info, err := fs.Lstat(w.fsys, name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := readAtMost(w.fsys, name, maxIgnoreFile)
	if err != nil {
		w.skip(name, SkipUnreadable, reasonOf(err))
		return nil
	}
	return parseIgnoreFile(dir, file, string(text))
}

// entry handles one entry of a folder.
func (w *walk) entry(ctx context.Context, name string, e fs.DirEntry, rs ignoreRules) error {
	base := e.Name()
	ignored, asked := rs.decide(name, e.IsDir())
	switch {
	case base == ".git" || slices.Contains(ignoreFiles[:], base):
		return nil // not reported
	case matchAny(w.exclude, name) || ignored:
		return nil // as requested
	case !chunk.Printable(base):
		w.skip(strings.ToValidUTF8(name, "\ufffd"), SkipUnreadable, "its name is not text")
	case isSecret(base) && !e.IsDir():
		w.skip(name, SkipSecret, "likely a secret, by its name")
	case strings.HasPrefix(base, "."):
		w.skip(name, SkipHidden, "hidden, by its name")
	case base == "node_modules" && e.IsDir():
		w.skip(name, SkipVendored, "installed packages")
	case e.IsDir():
		return w.dir(ctx, name, rs)
	case len(w.include) > 0 && !matchAny(w.include, name):
		return nil // not requested
	case w.take(name, asked || slices.Contains(w.include, name)):
	case e.Type()&fs.ModeSymlink != 0:
		w.links = append(w.links, name)
	case !e.Type().IsRegular():
		w.skip(name, SkipUnreadable, "not a regular file")
	default:
		w.file(name)
	}
	return nil
}

// take records whether a file is requested by name. Otherwise it skips the file if its name marks
// it as generated, and reports whether it did.
func (w *walk) take(name string, asked bool) (skipped bool) {
	if asked {
		w.asked[name] = true
		return false
	}
	rule := generatedName(name)
	if rule != "" {
		w.skip(name, SkipGenerated, rule)
	}
	return rule != ""
}

// file adds a file if its format is supported.
func (w *walk) file(name string) {
	if !supported(formatOf(w.fsys, name), w.pdf, w.ocr) {
		w.skipped = append(w.skipped, *unsupported(name))
		return
	}
	w.files = append(w.files, name)
}

// link adds a link that leads to a file inside the folder: a mounted volume may consist of such
// links only. A file that is read under its own name is not read again, and a link to a file whose
// name is rejected is rejected too.
func (w *walk) link(name string, files []string) {
	target, err := w.resolve(name)
	if err != nil {
		w.skip(name, SkipLink, reasonOf(err))
		return
	}
	info, err := fs.Lstat(w.fsys, target)
	switch {
	case err != nil:
		w.skip(name, SkipLink, reasonOf(err))
	case info.IsDir():
		w.skip(name, SkipLink, "a link to a folder")
	case !info.Mode().IsRegular():
		w.skip(name, SkipLink, "a link to something that is no file")
	case isSecret(target):
		w.skip(name, SkipSecret, "a link to what is likely a secret, by its name")
	case !w.asked[name] && generatedName(target) != "":
		w.skip(name, SkipGenerated, generatedName(target))
	case w.excluded(target):
		w.skip(name, SkipLink, "a link to what is excluded")
	default:
		if _, found := slices.BinarySearch(files, target); !found {
			w.file(name)
		}
	}
}

// excluded reports whether a file or one of its parent folders is excluded.
func (w *walk) excluded(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if matchAny(w.exclude, name) {
			return true
		}
	}
	return false
}

// maxLinks is the most links followed to one file, as in the kernel.
const maxLinks = 40

// errLeaves means that a link leads out of the folder.
var errLeaves = errors.New("the link leaves the folder")

// resolve follows name, and links in the folders on its way, to the final path.
func (w *walk) resolve(name string) (string, error) {
	done, left := ".", strings.Split(name, "/")
	for links := 0; len(left) > 0; {
		part := left[0]
		left = left[1:]
		if part == ".." && done == "." {
			return "", errLeaves
		}
		w.enter(done)
		next := path.Join(done, part)
		info, err := fs.Lstat(w.fsys, next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("the link leads back to itself")
		}
		target, err := fs.ReadLink(w.fsys, next)
		if err != nil {
			return "", err
		}
		if target = filepath.ToSlash(target); path.IsAbs(target) || filepath.IsAbs(target) {
			return "", errLeaves
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return done, nil
}

// reasonOf returns the text of an error without the path, which the report contains already.
func reasonOf(err error) string {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
