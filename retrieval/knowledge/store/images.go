package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The ends of the names of files.
const (
	imageSuffix   = ".seg"
	vectorsSuffix = ".vec"
)

// images keeps the files of segments, and of their vectors. Files are written once.
type images interface {
	path(name string) string // "" if it is none
	write(name string, image []byte) error
	read(name string) ([]byte, error) // fs.ErrNotExist if it is missing
	remove(name string) error
	list() ([]string, error) // also of those that were not written to the end
}

// folderImages keeps them in a folder.
type folderImages struct {
	dir  string
	step func(string)
}

func (f *folderImages) path(name string) string { return filepath.Join(f.dir, name) }

// write leaves the whole file under its name or nothing: its bytes are on disk
// before it gets the name, and the name is when it returns.
func (f *folderImages) write(name string, image []byte) error {
	if err := os.MkdirAll(f.dir, folderMode); err != nil {
		return err
	}
	return writeWhole(f.path(name), image, func(step string) { f.step("segment: " + step) })
}

func (f *folderImages) read(name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

func (f *folderImages) remove(name string) error {
	f.step("segment: remove")
	return os.Remove(f.path(name))
}

// list leaves out what is not ours by its name.
func (f *folderImages) list() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		if isImage(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// isImage tells whether a file is ours by its name, written to the end or not.
func isImage(name string) bool {
	name = strings.TrimSuffix(name, freshSuffix)
	return strings.HasSuffix(name, imageSuffix) || strings.HasSuffix(name, vectorsSuffix)
}

// memoryImages keeps them in memory.
type memoryImages struct{ held sync.Map } // []byte by name

func (*memoryImages) path(string) string { return "" }

func (m *memoryImages) write(name string, image []byte) error {
	m.held.Store(name, slices.Clone(image))
	return nil
}

func (m *memoryImages) read(name string) ([]byte, error) {
	image, ok := m.held.Load(name)
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return slices.Clone(image.([]byte)), nil
}

func (m *memoryImages) remove(name string) error {
	m.held.Delete(name)
	return nil
}

func (*memoryImages) list() ([]string, error) { return nil, nil }
