package folder

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// A Source provides the files of a folder.
type Source struct {
	FS    fs.FS
	file  string          // the only file to read; "" reads all
	root  *os.Root        // may be nil
	ocr   *ocr            // may be nil
	asked map[string]bool // files requested by name: they are read even if generated

	versions map[string]Version // of files that are no links, as Files found them
}

// A Version identifies a version of a file.
type Version struct {
	Mode     fs.FileMode
	Size     int64
	Modified time.Time
	// Mark distinguishes versions of the same size and time, as far as the system allows. It also
	// depends on whether the rules for generated files apply.
	Mark int64
}

func versionOf(info fs.FileInfo) Version {
	return Version{Mode: info.Mode(), Size: info.Size(), Modified: info.ModTime(), Mark: ChangeTime(info)}
}

// FromFS returns a Source for all files of a file system.
func FromFS(fsys fs.FS) *Source { return &Source{FS: fsys} }

// Open opens a folder; Path may be a single file. Everything below is opened through an os.Root,
// so that no link leads out of the folder, not even one created while it is read.
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
		if !info.Mode().IsRegular() { // opening a pipe would block
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

// Version returns the version of a file, which is that found by Files or a later one: what is read
// afterwards is not older.
func (s *Source) Version(name string) (Version, error) {
	v, ok := s.versions[name]
	if !ok {
		info, err := fs.Stat(s.FS, name)
		if err != nil {
			return Version{}, err
		}
		v = versionOf(info)
	}
	if s.asked[name] {
		v.Mark = ^v.Mark
	}
	return v, nil
}

// Close releases the source.
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

// Files returns the names of the files to read, sorted except for links, which come last, and what
// is skipped. It must be called before Read. p reads PDF files; if nil, they are skipped as
// unsupported. It only fails if the folder cannot be read or a pattern is invalid.
func (s *Source) Files(ctx context.Context, folder Folder, p *pdf.Reader) (files []string, skipped []Skip, err error) {
	return s.files(ctx, folder, p, func(string) {})
}

// files is Files with the enter function of Look.
func (s *Source) files(ctx context.Context, folder Folder, p *pdf.Reader, enter func(dir string)) (files []string, skipped []Skip, err error) {
	if err := folder.checkPatterns(); err != nil {
		return nil, nil, err
	}
	s.ocr = newOCR(folder.OCR)
	if s.file != "" {
		s.asked = map[string]bool{s.file: true}
		return []string{s.file}, nil, nil
	}
	w := &walk{
		fsys: s.FS, root: s.root, include: folder.Include, exclude: folder.Exclude, pdf: p, ocr: s.ocr, enter: enter,
		asked: map[string]bool{}, versions: map[string]Version{},
	}
	err = w.run(ctx)
	s.asked, s.versions = w.asked, w.versions
	return w.files, w.skipped, err
}

// Times returns the times of those files of the source that tell which version of a document is
// newer, see retrieval.FileTimes.
func (s *Source) Times(files []string) map[string]string {
	return retrieval.FileTimes(files, func(file string) time.Time {
		info, err := fs.Stat(s.FS, file)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	})
}
