package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Mirror is the local copy of a source: a folder with its files, and a list of what the source
// said of each. It is safe for concurrent use; only one process may fetch at a time.
//
// All files are written through an os.Root, under their names only when they are complete. So
// no name that a source chose leads out of the folder, and readers see no file half written.
type Mirror struct {
	dir   string
	root  *os.Root // dir
	files *os.Root // the files

	mu    sync.Mutex
	state mirrorState
}

// mirrorState is what is kept of a mirror beside its files.
type mirrorState struct {
	Source  string           `json:"source"`  // Source.String; another one starts anew
	Begun   time.Time        `json:"begun"`   // of the last fetch
	Fetched time.Time        `json:"fetched"` // end of the last fetch that listed the source
	Version string           `json:"version"` // of the whole source: a commit
	HostKey string           `json:"host_key,omitempty"`
	Entries map[string]entry `json:"entries"` // by path
}

// An entry is what a source said of a file.
type entry struct {
	Version  string `json:"version,omitempty"`  // ETag, or hash of a blob
	Modified string `json:"modified,omitempty"` // as the server wrote it
	Address  string `json:"address,omitempty"`  // at which people read it
	From     string `json:"from,omitempty"`     // at which it is fetched
	Size     int64  `json:"size"`
}

// The files below the folder of a mirror.
const (
	filesFolder = "files"
	tempFolder  = "temp"
	stateFile   = "mirror.json"
	lockFile    = "lock"
)

// Path returns the folder with the files of the mirror in dir.
func Path(dir string) string { return filepath.Join(dir, filesFolder) }

// OpenMirror opens the mirror of a source in a folder, which is created if it does not exist. A
// mirror of another source is emptied. The state of one that cannot be read is forgotten, so that all its
// files are compared or fetched again.
func OpenMirror(dir string, source string) (*Mirror, error) {
	if err := os.MkdirAll(filepath.Join(dir, filesFolder), 0o700); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	m := &Mirror{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	if json.Unmarshal(text, &m.state) != nil || m.state.Source != source {
		if m.state.Source != "" && m.state.Source != source {
			if err := m.clear(); err != nil {
				return nil, fmt.Errorf("open mirror: %w", err)
			}
		}
		m.state = mirrorState{Source: source}
	}
	if m.state.Entries == nil {
		m.state.Entries = map[string]entry{}
	}
	if m.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	if m.files, err = m.root.OpenRoot(filesFolder); err != nil {
		_ = m.root.Close()
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	return m, nil
}

// clear removes everything that is in the folder of the mirror but its lock.
func (m *Mirror) clear() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.dir, e.Name())))
		}
	}
	return errors.Join(err, os.MkdirAll(Path(m.dir), 0o700))
}

// Close releases the mirror.
func (m *Mirror) Close() error { return errors.Join(m.files.Close(), m.root.Close()) }

// ErrInUse means that another process fetches into the mirror.
var ErrInUse = errors.New("another process is fetching it")

// lock keeps other processes from fetching into the mirror until unlock is called.
func (m *Mirror) lock() (unlock func(), err error) {
	f, err := m.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if lock(f) != nil {
		_ = f.Close()
		return nil, ErrInUse
	}
	return func() { _ = f.Close() }, nil
}

// Path returns the folder with the files.
func (m *Mirror) Path() string { return Path(m.dir) }

// Fetched returns when the source was last listed in full; zero for never.
func (m *Mirror) Fetched() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fetched
}

// Begun returns when the last fetch began; zero for never.
func (m *Mirror) Begun() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Begun
}

// Files returns the number of files.
func (m *Mirror) Files() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.state.Entries)
}

// Address returns the address at which people read a file; "" for none.
func (m *Mirror) Address(file string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Entries[file].Address
}

func (m *Mirror) entry(file string) (entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.state.Entries[file]
	return e, ok
}

// entries returns a copy of all entries.
func (m *Mirror) entries() map[string]entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.state.Entries)
}

func (m *Mirror) update(change func(*mirrorState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.state)
}

// size returns the bytes of all files but one.
func (m *Mirror) size(but string) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for file, e := range m.state.Entries {
		if file != but {
			n += e.Size
		}
	}
	return n
}

// has reports whether a file of the mirror is there as its entry says. Somebody may have removed it.
func (m *Mirror) has(file string, e entry) bool {
	info, err := m.files.Lstat(filepath.FromSlash(file))
	return err == nil && (info.Size() == e.Size || info.Mode()&fs.ModeSymlink != 0)
}

// open opens a file of the mirror.
func (m *Mirror) open(file string) (*os.File, error) { return m.files.Open(filepath.FromSlash(file)) }

// A tooLargeError means that a file or a source has more bytes than allowed.
type tooLargeError struct {
	what  string
	limit int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %s", e.what, byteSize(e.limit))
}

// byteSize formats a number of bytes: "64 MiB".
func byteSize(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// put writes a file of at most limit bytes. The old one stays if that fails.
func (m *Mirror) put(file string, e entry, from io.Reader, limit int64) error {
	temp, err := m.temp()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it was renamed unless something failed
	n, err := io.Copy(temp, io.LimitReader(from, limit+1))
	if err == nil && n > limit {
		err = &tooLargeError{"the file", limit}
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := m.place(file, temp.Name()); err != nil {
		return err
	}
	e.Size = n
	m.update(func(s *mirrorState) { s.Entries[file] = e })
	return nil
}

func (m *Mirror) temp() (*os.File, error) {
	dir := filepath.Join(m.dir, tempFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, "file-*")
}

// place gives a complete file its name. The source decides what is a file and what a folder, so
// what is in the way is removed.
func (m *Mirror) place(file, temp string) error {
	name := filepath.FromSlash(file)
	if err := m.makeFolder(path.Dir(file)); err != nil {
		return err
	}
	if info, err := m.files.Lstat(name); err == nil && info.IsDir() {
		m.removeBelow(file)
		if err := m.files.RemoveAll(name); err != nil {
			return err
		}
	}
	return m.root.Rename(filepath.Join(tempFolder, filepath.Base(temp)), filepath.Join(filesFolder, name))
}

// makeFolder makes a folder for files, and removes files that are in its way.
func (m *Mirror) makeFolder(dir string) error {
	for i := range dir + "/" {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		part := dir[:i]
		if info, err := m.files.Lstat(filepath.FromSlash(part)); err == nil && !info.IsDir() {
			if err := m.remove(part); err != nil {
				return err
			}
		}
	}
	return m.files.MkdirAll(filepath.FromSlash(dir), 0o700)
}

// link makes a file a link to another file.
func (m *Mirror) link(file, target string, e entry) error {
	if err := m.makeFolder(path.Dir(file)); err != nil {
		return err
	}
	name := filepath.FromSlash(file)
	m.removeBelow(file)
	if err := m.files.RemoveAll(name); err != nil {
		return err
	}
	if err := m.files.Symlink(filepath.FromSlash(target), name); err != nil {
		return err
	}
	m.update(func(s *mirrorState) { s.Entries[file] = e })
	return nil
}

// removeBelow forgets the files below a folder.
func (m *Mirror) removeBelow(dir string) {
	m.update(func(s *mirrorState) {
		maps.DeleteFunc(s.Entries, func(file string, _ entry) bool { return strings.HasPrefix(file, dir+"/") })
	})
}

// remove removes a file and the folders that it leaves empty.
func (m *Mirror) remove(file string) error {
	if err := m.files.Remove(filepath.FromSlash(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.update(func(s *mirrorState) { delete(s.Entries, file) })
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if m.files.Remove(filepath.FromSlash(dir)) != nil {
			break // it is not empty
		}
	}
	return nil
}

// prune removes all files but those of a complete listing, and what the mirror knows nothing of.
func (m *Mirror) prune(listed map[string]bool, r *Report) error {
	var stale []string
	err := fs.WalkDir(m.files.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !listed[name] {
			stale = append(stale, name)
		}
		return err
	})
	for file := range m.entries() {
		if !listed[file] {
			stale = append(stale, file)
		}
	}
	slices.Sort(stale)
	for _, file := range slices.Compact(stale) {
		if removed := m.remove(file); removed != nil {
			err = errors.Join(err, removed)
			continue
		}
		r.Removed++
	}
	return err
}

// save writes the state of the mirror, atomically.
func (m *Mirror) save() error {
	m.mu.Lock()
	text, err := json.Marshal(m.state)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	temp, err := m.temp()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return m.root.Rename(filepath.Join(tempFolder, filepath.Base(temp.Name())), stateFile)
}

// begin notes that a fetch begins, and removes what an earlier one left half written.
func (m *Mirror) begin() error {
	m.update(func(s *mirrorState) { s.Begun = time.Now() })
	return errors.Join(os.RemoveAll(filepath.Join(m.dir, tempFolder)), m.save())
}

// end notes the end of a fetch; listed says whether the source said in full what it has.
func (m *Mirror) end(listed bool, r *Report) error {
	if listed {
		m.update(func(s *mirrorState) { s.Fetched = time.Now() })
	}
	r.Files = m.Files()
	return m.save()
}

const (
	maxName = 120 // bytes of a name; longer ones end in a hash
	maxPath = 1000
)

// fileName returns the path in a mirror for names that a source chose, so that two different lists
// have different paths. It has no name that a file system or a walk of it takes for another.
func fileName(names []string) string {
	whole := strings.Join(names, "/")
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = oneName(name)
	}
	if file := strings.Join(out, "/"); len(file) <= maxPath {
		return file
	}
	return "long/" + hashed(out[len(out)-1], whole)
}

// oneName escapes a name that cannot be one of a file.
func oneName(name string) string {
	if name == "" || name == "." || name == ".." {
		return "%" + hex.EncodeToString([]byte(name))
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte(`\:*?"<>|%`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	if escaped := strings.ToValidUTF8(b.String(), "?"); escaped != b.String() || len(escaped) > maxName {
		return hashed(escaped, name)
	}
	return b.String()
}

// hashed returns a short name that is different for different texts, with the end of name, which
// tells its format.
func hashed(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	ext := path.Ext(name)
	if len(ext) > 12 {
		ext = ""
	}
	stem := strings.TrimSuffix(name, ext)
	return strings.ToValidUTF8(stem[:min(len(stem), 60)], "") + "-" + hex.EncodeToString(sum[:8]) + ext
}
