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

// A CertificateFile is a PEM file that is read again when it changes. The zero value is no file.
type CertificateFile struct {
	Path string // for error messages and Follows
	Read func() ([]byte, error)
}

// CertificatesOnDisk returns the file at path; the zero CertificateFile if path is "".
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
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // reading a pipe would block handshakes
			return nil, cmp.Or(err, errors.New("is not a regular file"))
		}
		return io.ReadAll(io.LimitReader(f, maxPEM+1))
	}}
}

// A Reloader holds the last good value parsed from files. It is safe for concurrent use.
type Reloader[T any] struct {
	// OnReload, if not nil, is called once for each reason why changed files cannot be used, and
	// with nil when new ones are used. It must not be changed after the first call of Current.
	OnReload func(error)

	files []CertificateFile
	parse func(pems [][]byte) (T, error)
	now   func() time.Time

	mu      sync.Mutex
	checked time.Time // when the files were last checked
	digest  [sha256.Size]byte
	failed  string // why the files could not be used then; "" if they could
	current T
}

// ReloadInterval is the least time between two checks of the files.
const ReloadInterval = time.Second

// maxPEM is the size limit of a file in bytes.
const maxPEM = 1 << 20

// NewReloader reads files, which may be zero ones, and parses them. now is time.Now, except in
// tests.
func NewReloader[T any](files []CertificateFile, parse func(pems [][]byte) (T, error), now func() time.Time) (*Reloader[T], error) {
	r := &Reloader[T]{files: files, parse: parse, now: now, checked: now()}
	pems, err := r.read()
	if err == nil {
		r.digest = digest(pems)
		r.current, err = parse(pems)
	}
	return r, err
}

// Follows reports whether r and other read the same files. A nil Reloader reads none.
func (r *Reloader[T]) Follows(other *Reloader[T]) bool {
	if r == nil || other == nil {
		return r == other
	}
	return slices.EqualFunc(r.files, other.files, func(a, b CertificateFile) bool { return a.Path == b.Path })
}

// Current returns the value parsed from the last good files. It checks them again, at most once per
// ReloadInterval.
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
	if r.OnReload != nil {
		r.OnReload(err)
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
			err = broken.Err // the message below names the path
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
