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

// The suffixes of file names.
const (
	imageSuffix   = ".seg"
	vectorsSuffix = ".vec"
)

// images stores the files of segments and vectors. Each file is written once.
type images interface {
	path(name string) string // "" for images in memory
	write(name string, image []byte) error
	read(name string) ([]byte, error) // fs.ErrNotExist if it is missing
	remove(name string) error
	list() ([]string, error) // including those that were not written completely
}

// folderImages stores images in a folder.
type folderImages struct {
	dir  string
	step func(string)
}

func (f *folderImages) path(name string) string { return filepath.Join(f.dir, name) }

// write writes a file completely or not at all: its bytes are synced before it gets its name, and
// the name is synced when write returns.
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

// list returns only files with one of our suffixes.
func (f *folderImages) list() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		if isImage(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// isImage reports whether a file has one of our suffixes, whether complete or not.
func isImage(name string) bool {
	name = strings.TrimSuffix(name, freshSuffix)
	return strings.HasSuffix(name, imageSuffix) || strings.HasSuffix(name, vectorsSuffix)
}

// memoryImages stores images in memory.
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
