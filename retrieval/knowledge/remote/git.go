package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Git is a branch, tag or commit of a git repository. Its objects are kept beside the files of the
// mirror as a shallow clone, so that a fetch transfers only what is new.
type Git struct {
	URL  string // http, https or ssh, without credentials
	Ref  string // a branch, a tag or a full name of a reference; "" is the default branch
	Path string // the folder in the repository; "" is all of it

	User     string        // "" is git
	Password func() string // also a token; nil or "" for none
	Key      func() []byte // private key of ssh, PEM; nil for none
	// KnownHosts has the keys of ssh servers as in ~/.ssh/known_hosts. Without it, the key that a server
	// has at first is remembered in the mirror, and another one refused.
	KnownHosts func() []byte

	Network
	Limits Limits
}

const gitFolder = "git"

// DropHistory removes what a mirror of a git repository keeps beside its files, which may hold files
// that were deleted since. The next fetch clones the repository anew. dir is that of the mirror.
func DropHistory(dir string) error { return os.RemoveAll(filepath.Join(dir, gitFolder)) }

// The bounds of what a git server sends.
const (
	maxAdvertised = 32 << 20  // bytes of its list of references
	maxObjects    = 5_000_000 // in a pack
	maxTreeDepth  = 64
	maxPacks      = 20 // then the clone is made anew
)

// String describes the repository.
func (g Git) String() string {
	text := "git " + g.URL
	if g.Ref != "" {
		text += " " + g.Ref
	}
	if g.Path != "" {
		text += " " + g.Path
	}
	return text
}

// Fetch fetches the repository, and writes the files of the folder.
func (g Git) Fetch(ctx context.Context, m *Mirror, progress func(Progress)) (Report, error) {
	g.Limits = g.Limits.withDefaults()
	return run(ctx, m, g.Limits, func(ctx context.Context, r *Report) error {
		f := &gitFetch{Git: g, m: m, r: r, teller: teller{tell: progress}, web: g.client(g.Limits)}
		defer f.web.CloseIdleConnections()
		return f.run(ctx)
	})
}

// A gitFetch is one fetch of a repository.
type gitFetch struct {
	Git
	m *Mirror
	r *Report
	teller
	web     *http.Client
	storage *filesystem.Storage
	listed  map[string]bool
	total   int64
	large   int // files left out
}

func (f *gitFetch) run(ctx context.Context) error {
	commit, err := f.update(ctx, true)
	if packs, _ := f.packs(); err != nil && ctx.Err() == nil && packs > 0 { // a clone that cannot be continued is made anew
		commit, err = f.update(ctx, false)
	}
	if err != nil {
		return err
	}
	f.r.Commit = commit.String()
	tree, err := f.tree(commit)
	if err != nil {
		return err
	}
	f.listed = map[string]bool{}
	if err := f.folder(ctx, tree, "", 0); err != nil {
		return err
	}
	if f.large > 0 {
		f.r.note("%d files of more than %s were left out", f.large, byteSize(f.Limits.File))
	}
	f.r.Listed = len(f.listed)
	f.m.update(func(s *mirrorState) { s.Version = f.r.Commit })
	return f.m.prune(f.listed, f.r)
}

// packs returns the number and the bytes of the packs of the clone.
func (f *gitFetch) packs() (n int, bytes int64) {
	packs, _ := filepath.Glob(filepath.Join(f.m.dir, gitFolder, "objects", "pack", "*.pack"))
	for _, name := range packs {
		if info, err := os.Stat(name); err == nil {
			bytes += info.Size()
		}
	}
	return len(packs), bytes
}

// update brings the clone up to date and returns the commit; further says whether to continue the
// clone that is there.
func (f *gitFetch) update(ctx context.Context, further bool) (commit plumbing.Hash, err error) {
	packs, bytes := f.packs()
	further = further && packs > 0 && packs <= maxPacks && bytes <= f.Limits.Bytes
	f.open(gitFolder)
	session, err := f.session(ctx)
	if err != nil {
		return commit, err
	}
	defer func() { _ = session.Close() }()
	refs, err := session.AdvertisedReferencesContext(withLimit(ctx, maxAdvertised))
	if err != nil {
		return commit, gitError(err)
	}
	if commit, err = resolve(refs, f.Ref); err != nil {
		return commit, err
	}
	old := plumbing.NewHash(f.m.version())
	if further && commit == old {
		return commit, nil
	}
	request := f.request(refs, commit)
	if further && !old.IsZero() {
		request.Haves, request.Shallows = []plumbing.Hash{old}, []plumbing.Hash{old}
	} else if err := f.renew(); err != nil {
		return commit, err
	}
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return commit, gitError(err)
	}
	defer func() { _ = response.Close() }()
	return commit, f.receive(ctx, request, response)
}

// open opens the clone in a folder of the mirror.
func (f *gitFetch) open(name string) {
	f.storage = filesystem.NewStorage(osfs.New(filepath.Join(f.m.dir, name), osfs.WithBoundOS()), cache.NewObjectLRU(8*cache.MiByte))
}

// renew begins a new clone. The files of the mirror stay.
func (f *gitFetch) renew() error {
	if err := f.m.root.RemoveAll(gitFolder); err != nil {
		return err
	}
	f.open(gitFolder)
	return nil
}

func (m *Mirror) version() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Version
}

// session connects to the server.
func (f *gitFetch) session(ctx context.Context) (transport.UploadPackSession, error) {
	endpoint, err := transport.NewEndpoint(f.URL)
	if err != nil {
		return nil, err
	}
	switch endpoint.Protocol {
	case "http", "https", "ssh":
	default: // a path of this machine, or a protocol without encryption and passwords
		return nil, fmt.Errorf("%q is not an http, https or ssh URL", f.URL)
	}
	user, password := f.User, ""
	if user == "" {
		user = "git"
	}
	if f.Password != nil {
		password = f.Password()
	}
	if endpoint.Protocol == "ssh" {
		return f.dialSSH(ctx, endpoint, user, password)
	}
	var auth transport.AuthMethod
	if password != "" {
		auth = &githttp.BasicAuth{Username: user, Password: password}
	}
	return githttp.NewClient(f.web).NewUploadPackSession(endpoint, auth)
}

// gitError adds what to do to an error of a server.
func gitError(err error) error {
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return fmt.Errorf("the server refuses the credentials, or needs some: %w", err)
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return errors.New("the repository is empty")
	}
	return err
}

// resolve returns the hash of a reference.
func resolve(refs *packp.AdvRefs, ref string) (plumbing.Hash, error) {
	if ref == "" || ref == "HEAD" {
		if refs.Head == nil {
			return plumbing.ZeroHash, errors.New("the repository has no default branch; name one by ref")
		}
		return *refs.Head, nil
	}
	for _, name := range []string{ref, "refs/heads/" + ref, "refs/tags/" + ref} {
		if hash, ok := refs.Peeled[name]; ok { // the commit of an annotated tag
			return hash, nil
		}
		if hash, ok := refs.References[name]; ok {
			return hash, nil
		}
	}
	if plumbing.IsHash(ref) {
		return plumbing.NewHash(ref), nil // many servers allow it
	}
	return plumbing.ZeroHash, fmt.Errorf("the repository has no branch or tag %q", ref)
}

// request returns the request for a single commit with its files.
func (f *gitFetch) request(refs *packp.AdvRefs, commit plumbing.Hash) *packp.UploadPackRequest {
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	for _, c := range []capability.Capability{capability.ThinPack, capability.MultiACK, capability.MultiACKDetailed} {
		request.Capabilities.Delete(c)
	}
	if refs.Capabilities.Supports(capability.Shallow) {
		_ = request.Capabilities.Set(capability.Shallow)
		request.Depth = packp.DepthCommits(1)
	}
	if refs.Capabilities.Supports(capability.Filter) {
		_ = request.Capabilities.Set(capability.Filter)
		request.Filter = packp.FilterBlobLimit(uint64(f.Limits.File)+1, packp.BlobLimitPrefixNone)
	}
	request.Wants = []plumbing.Hash{commit}
	return request
}

// receive stores the pack of a response. It is checked in a file first, as the index of a pack is
// built in memory.
func (f *gitFetch) receive(ctx context.Context, request *packp.UploadPackRequest, response io.Reader) error {
	switch {
	case request.Capabilities.Supports(capability.Sideband64k):
		response = sideband.NewDemuxer(sideband.Sideband64k, response)
	case request.Capabilities.Supports(capability.Sideband):
		response = sideband.NewDemuxer(sideband.Sideband, response)
	}
	temp, err := f.m.temp()
	if err != nil {
		return err
	}
	defer func() { _ = temp.Close(); _ = os.Remove(temp.Name()) }()
	counted := &countingReader{r: response, count: func(n int) { f.Bytes += int64(n); f.show() }}
	n, err := io.Copy(temp, io.LimitReader(counted, f.Limits.Bytes+1))
	f.r.Bytes += n
	switch {
	case err != nil:
		return fmt.Errorf("receive: %w", err)
	case n > f.Limits.Bytes:
		return &tooLargeError{"the repository", f.Limits.Bytes}
	case n == 0:
		return errors.New("the server sent an empty pack")
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := checkPack(ctx, temp, f.Limits.File); err != nil {
		return err
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return packfile.UpdateObjectStorage(f.storage, temp)
}

type countingReader struct {
	r     io.Reader
	count func(n int)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.count(n)
	return n, err
}

// checkPack returns an error for a pack with too many objects or one that becomes too large in
// memory.
func checkPack(ctx context.Context, pack io.Reader, most int64) error {
	s := packfile.NewScanner(pack)
	_, objects, err := s.Header()
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if objects > maxObjects {
		return fmt.Errorf("the repository has %d objects; at most %d are read", objects, maxObjects)
	}
	for range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := s.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		size := h.Length
		if size <= most {
			var head prefix
			if _, _, err := s.NextObject(&head); err != nil {
				return fmt.Errorf("read pack: %w", err)
			}
			if h.Type.IsDelta() {
				size = head.target()
			}
		}
		if size > most {
			return &tooLargeError{"an object of the repository", most}
		}
	}
	return nil
}

// A prefix keeps the first bytes that are written to it.
type prefix struct{ bytes.Buffer }

func (p *prefix) Write(b []byte) (int, error) {
	const enough = 20 // two numbers of 64 bits in bytes of 7 bits each
	p.Buffer.Write(b[:min(len(b), max(0, enough-p.Len()))])
	return len(b), nil
}

// target returns the size of what a delta makes, from its first bytes.
func (p *prefix) target() (size int64) {
	for range 2 { // the size of the base comes first
		size = 0
		for shift := 0; ; shift += 7 {
			b, err := p.ReadByte()
			if err != nil {
				return 0 // a broken delta, which makes nothing
			}
			if shift < 56 {
				size |= int64(b&0x7f) << shift
			} else if b&0x7f != 0 {
				size = 1 << 62
			}
			if b < 0x80 {
				break
			}
		}
	}
	return size
}

// tree returns the folder of the commit that is mirrored.
func (f *gitFetch) tree(hash plumbing.Hash) (*object.Tree, error) {
	if tag, err := object.GetTag(f.storage, hash); err == nil {
		hash = tag.Target
	}
	commit, err := object.GetCommit(f.storage, hash)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	if folder := strings.Trim(path.Clean("/"+f.Path), "/"); folder != "" {
		if tree, err = tree.Tree(folder); err != nil {
			return nil, fmt.Errorf("the repository has no folder %q in %s", f.Path, hash.String()[:12])
		}
	}
	return tree, nil
}

// folder writes the files of a folder of the repository.
func (f *gitFetch) folder(ctx context.Context, tree *object.Tree, dir string, depth int) error {
	if depth > maxTreeDepth {
		f.r.note("folders below %q are nested too deeply", dir)
		return nil
	}
	for _, e := range tree.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, oneName(e.Name))
		if len(name) > maxPath {
			f.r.note("files with a path of more than %d bytes were left out", maxPath)
			continue
		}
		switch e.Mode {
		case filemode.Dir:
			below, err := object.GetTree(f.storage, e.Hash)
			if err != nil {
				return fmt.Errorf("read folder %q: %w", name, err)
			}
			if err := f.folder(ctx, below, name, depth+1); err != nil {
				return err
			}
		case filemode.Submodule:
			f.r.note("submodule %s is not fetched", name)
		default:
			if len(f.listed) >= f.Limits.Files {
				return fmt.Errorf("the repository has more than %d files", f.Limits.Files)
			}
			if err := f.file(name, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// file writes a file of the repository if it has changed. Its errors end the fetch.
func (f *gitFetch) file(name string, e object.TreeEntry) error {
	f.Done++
	f.Files = f.Done
	defer f.show()
	version := e.Hash.String() + " " + e.Mode.String()
	if old, ok := f.m.entry(name); ok && old.Version == version && f.m.has(name, old) {
		f.listed[name] = true
		f.total += old.Size
		f.r.Unchanged++
		return f.checkTotal()
	}
	blob, err := object.GetBlob(f.storage, e.Hash)
	switch {
	case errors.Is(err, plumbing.ErrObjectNotFound), err == nil && blob.Size > f.Limits.File:
		f.large++
		return nil
	case err != nil:
		return fmt.Errorf("read %q: %w", name, err)
	}
	f.listed[name] = true
	f.total += blob.Size
	if err := f.checkTotal(); err != nil {
		return err
	}
	return f.write(name, e.Mode, version, blob)
}

func (f *gitFetch) checkTotal() error {
	if f.total > f.Limits.Bytes {
		return &tooLargeError{"the folder of the repository", f.Limits.Bytes}
	}
	return nil
}

func (f *gitFetch) write(name string, mode filemode.FileMode, version string, blob *object.Blob) (err error) {
	r, err := blob.Reader()
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f.r.Fetched++
	if mode == filemode.Symlink {
		target, err := io.ReadAll(io.LimitReader(r, maxPath))
		if err == nil {
			err = f.m.link(name, string(target), entry{Version: version})
		}
		if err != nil {
			f.r.fail(name, err)
		}
		return nil
	}
	const pointer = "version https://git-lfs.github.com/"
	if blob.Size < 1024 {
		text, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("read %q: %w", name, err)
		}
		if bytes.HasPrefix(text, []byte(pointer)) {
			f.r.note("files in Git LFS are not fetched, such as %s", name)
			delete(f.listed, name)
			f.r.Fetched--
			return nil
		}
		return f.m.put(name, entry{Version: version}, bytes.NewReader(text), f.Limits.File)
	}
	return f.m.put(name, entry{Version: version}, r, f.Limits.File)
}

// PageTemplate returns where people read the files of a repository: https://github.com/o/r/blob/main/{path}.
// It is "" if the forge is not known.
func (g Git) PageTemplate() string {
	u, err := url.Parse(g.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	ref := g.Ref
	if ref == "" {
		ref = "HEAD"
	}
	host := u.Hostname()
	at := "https://" + host + strings.TrimSuffix(strings.TrimSuffix(u.EscapedPath(), "/"), ".git")
	switch name := (&url.URL{Path: ref}).EscapedPath(); {
	case host == "github.com" || strings.HasPrefix(host, "github."):
		return at + "/blob/" + name + "/{path}"
	case host == "gitlab.com" || strings.HasPrefix(host, "gitlab."):
		return at + "/-/blob/" + name + "/{path}"
	case host == "bitbucket.org":
		return at + "/src/" + name + "/{path}"
	case (host == "codeberg.org" || strings.HasPrefix(host, "gitea.") || strings.HasPrefix(host, "forgejo.")) && g.Ref != "":
		return at + "/src/branch/" + name + "/{path}"
	}
	return ""
}
