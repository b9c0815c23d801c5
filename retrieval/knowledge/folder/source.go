package folder

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sidenote/retrieval/knowledge/extract/pdf"
)

// A Source is what the files of a folder are read from.
type Source struct {
	FS    fs.FS
	file  string          // the one file to read; "" reads all
	root  *os.Root        // nil for none to close
	asked map[string]bool // files that were asked for by name: they are read even if generated
}

// FromFS returns a source of all files of a file system.
func FromFS(fsys fs.FS) *Source { return &Source{FS: fsys} }

// Open opens what a folder is read from; Path may be a single file. Everything below is
// opened through a root, so that no link leads out of it, not even one that is put there
// while we read.
func Open(folder Folder) (*Source, error) {
	name, stat, open := folder.Path, os.Stat, os.OpenRoot
	if folder.Within != "" {
		outer, err := os.OpenRoot(folder.Within)
		if err != nil {
			return nil, fmt.Errorf("open folder: %w", err)
		}
		defer func() { _ = outer.Close() }()
		if name, err = nameIn(folder.Within, folder.Path); err != nil {
			return nil, fmt.Errorf("open folder: %w", err)
		}
		stat, open = outer.Stat, outer.OpenRoot
	}
	info, err := stat(name)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	file := ""
	if !info.IsDir() {
		if !info.Mode().IsRegular() { // opening a pipe would wait for ever
			return nil, fmt.Errorf("open %s: neither a folder nor a file", name)
		}
		name, file = filepath.Split(filepath.Clean(name))
	}
	root, err := open(cmp.Or(name, "."))
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	return &Source{FS: root.FS(), file: file, root: root}, nil
}

// Mark tells this version of a file from others of the same size and time, as far as the
// system does, and whether the rules for generated files hold for it.
func (s *Source) Mark(name string, info fs.FileInfo) int64 {
	mark := ChangeTime(info)
	if s.asked[name] {
		return ^mark
	}
	return mark
}

// Close ends the use of the source.
func (s *Source) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// nameIn returns path relative to a folder.
func nameIn(folder, path string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.Rel(folder, path)
}

// Files is to be called before Read. It returns the names of the files to read, sorted but
// for links, which come last, and what is not read. p reads PDF; nil leaves it out as
// unsupported. The only errors are a folder that cannot be read and an
// invalid pattern.
func (s *Source) Files(ctx context.Context, folder Folder, p *pdf.Reader) (files []string, skipped []Skip, err error) {
	return s.files(ctx, folder, p, func(string) {})
}

// files is Files; enter is that of Look.
func (s *Source) files(ctx context.Context, folder Folder, p *pdf.Reader, enter func(dir string)) (files []string, skipped []Skip, err error) {
	if err := folder.checkPatterns(); err != nil {
		return nil, nil, err
	}
	if s.file != "" {
		s.asked = map[string]bool{s.file: true}
		return []string{s.file}, nil, nil
	}
	w := &walk{fsys: s.FS, include: folder.Include, exclude: folder.Exclude, pdf: p, enter: enter, asked: map[string]bool{}}
	err = w.run(ctx)
	s.asked = w.asked
	return w.files, w.skipped, err
}
