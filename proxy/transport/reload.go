package transport

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A CertificateFile is a PEM file that is read again. The zero CertificateFile is none.
type CertificateFile struct {
	Path string // for messages
	Read func() ([]byte, error)
}

// CertificatesOnDisk returns the file at a path, "" for none.
func CertificatesOnDisk(path string) CertificateFile {
	if path == "" {
		return CertificateFile{}
	}
	return CertificateFile{path, func() ([]byte, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // handshakes would wait for who writes a pipe
			return nil, cmp.Or(err, errors.New("is no regular file"))
		}
		return io.ReadAll(io.LimitReader(f, maxPEM+1))
	}}
}

// A Reloader holds what was last made of files. It is safe for concurrent use.
type Reloader[T any] struct {
	// Tell, unless nil, hears why changed files cannot be used, once for each reason, and nil
	// when new ones are used. It is not to be changed after the first call of Current.
	Tell func(error)

	files []CertificateFile
	parse func(pems [][]byte) (T, error)
	now   func() time.Time

	mu      sync.Mutex
	checked time.Time // when the files were last looked at
	digest  [sha256.Size]byte
	failed  string // why what they held then could not be used; "" if it could
	current T
}

// ReloadInterval is how often the files are looked at, at most.
const ReloadInterval = time.Second

// maxPEM bounds a file, in bytes.
const maxPEM = 1 << 20

// NewReloader reads files, which may be zero ones, and returns what parse makes of their
// contents. now is time.Now, except in tests.
func NewReloader[T any](files []CertificateFile, parse func(pems [][]byte) (T, error), now func() time.Time) (*Reloader[T], error) {
	r := &Reloader[T]{files: files, parse: parse, now: now, checked: now()}
	pems, err := r.read()
	if err == nil {
		r.digest = digest(pems)
		r.current, err = parse(pems)
	}
	return r, err
}

// Follows tells whether r and other read the same files. A nil Reloader reads none.
func (r *Reloader[T]) Follows(other *Reloader[T]) bool {
	if r == nil || other == nil {
		return r == other
	}
	return slices.EqualFunc(r.files, other.files, func(a, b CertificateFile) bool { return a.Path == b.Path })
}

// Current returns what was made of the files when they were last good. It looks at them
// again, at most once in Every.
func (r *Reloader[T]) Current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.checked) < ReloadInterval {
		return r.current
	}
	r.checked = now
	if err := r.reload(); err == nil {
		r.failed = ""
	} else if text := err.Error(); text != r.failed {
		r.failed = text
		r.tell(err)
	}
	return r.current
}

func (r *Reloader[T]) tell(err error) {
	if r.Tell != nil {
		r.Tell(err)
	}
}

// reload parses the files if they have changed.
func (r *Reloader[T]) reload() error {
	pems, err := r.read()
	if err != nil {
		return err
	}
	sum := digest(pems)
	if sum == r.digest {
		return nil
	}
	fresh, err := r.parse(pems)
	if err != nil {
		return err
	}
	r.digest, r.current = sum, fresh
	r.tell(nil)
	return nil
}

// read returns the contents of the files.
func (r *Reloader[T]) read() (pems [][]byte, err error) {
	for _, f := range r.files {
		var pem []byte
		if f.Read != nil {
			pem, err = f.Read()
		}
		if err == nil && len(pem) > maxPEM {
			err = errors.New("larger than 1 MiB")
		}
		if broken, ok := errors.AsType[*os.PathError](err); ok {
			err = broken.Err // the path is named already
		}
		if err != nil {
			return nil, fmt.Errorf("%q cannot be read: %w", f.Path, err)
		}
		pems = append(pems, pem)
	}
	return pems, nil
}

func digest(pems [][]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, pem := range pems {
		fmt.Fprintf(h, "%d:", len(pem))
		_, _ = h.Write(pem)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
