package store

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// sumsName is the last entry of a backup: the digest and the name of each other entry, a line each.
	sumsName = "sidenote-backup.sha256"
	maxSums  = 16 << 20 // bytes
)

// Backup writes a state folder to a tar file that only its owner may read, and returns the size of the
// file. The folder may be in use: the database is copied as of one moment, and a segment that is
// removed meanwhile is made again from the documents after a restore. The file appears under its name
// when it is complete, and replaces an earlier one.
func Backup(ctx context.Context, dir, file string) (bytes int64, err error) {
	s, err := newStore(dir, Options{Before: func(string) {}})
	if err != nil {
		return 0, err
	}
	if file, err = filepath.Abs(file); err != nil {
		return 0, err
	}
	if inside, err := filepath.Rel(s.dir, file); err == nil && filepath.IsLocal(inside) {
		return 0, fmt.Errorf("%s is in the state folder, which it would hold itself; write it elsewhere", file)
	}
	fresh, database := file+freshSuffix, file+".db"+freshSuffix
	defer func() { _, _ = os.Remove(database), os.Remove(fresh) }()
	if err := s.copyDatabase(ctx, database); err != nil {
		return 0, fmt.Errorf("back up %s: %w", s.path, full(err))
	}
	if bytes, err = s.writeBackup(ctx, fresh, database); err == nil {
		err = os.Rename(fresh, file)
	}
	if err == nil {
		err = syncDir(filepath.Dir(file))
	}
	if err != nil {
		return 0, fmt.Errorf("write backup: %w", full(err))
	}
	return bytes, nil
}

// copyDatabase writes the current content of the database to a new file.
func (s *database) copyDatabase(ctx context.Context, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that died
		return err
	}
	// Create it here: SQLite would make it readable for everybody.
	if err := writeNew(to, nil, func() {}); err != nil {
		return err
	}
	_, err := s.openReaders(ctx)
	if err == nil {
		_, err = s.readers.ExecContext(ctx, "VACUUM INTO ?", to)
	}
	if s.readers != nil {
		err = errors.Join(err, s.readers.Close())
	}
	return s.classify(err)
}

// writeBackup writes the tar file; database is the copy of the database.
func (s *database) writeBackup(ctx context.Context, to, database string) (bytes int64, err error) {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := backupWriter{tar: tar.NewWriter(out)}
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.dir, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir() && name == codeName:
			return fs.SkipDir
		case !e.Type().IsRegular(), strings.HasPrefix(name, databaseName), e.Name() == lockName, strings.HasSuffix(name, freshSuffix):
			return nil
		}
		return w.add(filepath.ToSlash(name), path)
	})
	if err == nil {
		err = w.add(databaseName, database)
	}
	if err == nil {
		err = errors.Join(w.write(sumsName, int64(len(w.sums)), strings.NewReader(w.sums)), w.tar.Close(), out.Sync())
	}
	if err != nil {
		return 0, err
	}
	return out.Seek(0, io.SeekCurrent)
}

// A backupWriter writes the entries of a backup.
type backupWriter struct {
	tar  *tar.Writer
	sums string
}

// add adds a file, unless it was removed. What is appended to it meanwhile is left out.
func (w *backupWriter) add(name, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := w.write(name, info.Size(), io.TeeReader(f, sum)); err != nil {
		return err
	}
	w.sums += sumLine(sum, name)
	return nil
}

func sumLine(sum hash.Hash, name string) string {
	return hex.EncodeToString(sum.Sum(nil)) + "  " + name + "\n"
}

func (w *backupWriter) write(name string, size int64, content io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: fileMode}); err != nil {
		return err
	}
	if _, err := io.CopyN(w.tar, content, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Restore writes a backup to a state folder, which it creates; the folder must be empty. If the backup
// is incomplete, damaged or of another program, it leaves the folder empty. Nothing is written
// outside the folder, whatever the file holds.
func Restore(ctx context.Context, file, dir string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty; a backup is restored into a folder of its own", dir))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("restore %s: %w", file, full(err)), clearRoot(root))
		}
		err = errors.Join(err, root.Close())
	}()
	if err := unpack(ctx, in, root); err != nil {
		return err
	}
	if err := root.Rename(databaseName+freshSuffix, databaseName); err != nil {
		return err
	}
	return errors.Join(checkRestored(ctx, dir), syncDir(dir))
}

// checkRestored returns an error for a database that Open would refuse.
func checkRestored(ctx context.Context, dir string) error {
	s, err := newStore(dir, Options{Before: func(string) {}})
	if err != nil {
		return err
	}
	have, err := s.openReaders(ctx)
	if s.readers != nil {
		err = errors.Join(err, s.readers.Close())
	}
	if know := len(schema()); err == nil && have > know {
		return &SchemaError{Path: s.path, Have: have, Know: know}
	}
	return err
}

// clearRoot removes everything in a folder.
func clearRoot(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return err
}

// unpack writes the entries of a backup below root, the database under another name, and checks them.
func unpack(ctx context.Context, in *os.File, root *os.Root) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	left, sums, seen := info.Size(), "", map[string]bool{} // an entry cannot hold more than the file
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it ends too early, or is no backup of a state folder")
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Name == sumsName {
			given, err := io.ReadAll(io.LimitReader(r, maxSums))
			if err == nil && (string(given) != sums || !seen[databaseName]) {
				err = errors.New("it is damaged: what it holds is not what was backed up")
			}
			return err
		}
		if left -= h.Size; left < 0 || h.Typeflag != tar.TypeReg || !fs.ValidPath(h.Name) || !filepath.IsLocal(filepath.FromSlash(h.Name)) || seen[h.Name] {
			return fmt.Errorf("it holds %q, which no backup does", h.Name)
		}
		seen[h.Name] = true
		line, err := unpackFile(r, h.Name, root)
		if err != nil {
			return err
		}
		sums += line
	}
}

// unpackFile writes one entry and returns its line of the sums.
func unpackFile(r io.Reader, name string, root *os.Root) (line string, err error) {
	path := filepath.FromSlash(name)
	if folder := filepath.Dir(path); folder != "." {
		if err := root.MkdirAll(folder, folderMode); err != nil {
			return "", err
		}
	}
	if name == databaseName {
		path += freshSuffix
	}
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err = io.Copy(io.MultiWriter(f, sum), r); err == nil {
		err = f.Sync()
	}
	return sumLine(sum, name), errors.Join(err, f.Close())
}
