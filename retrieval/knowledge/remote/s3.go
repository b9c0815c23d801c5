package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
)

// S3 is the objects of a bucket of S3 or of a store that speaks its protocol. An object is not fetched again
// while its ETag and size are the same.
type S3 struct {
	Endpoint string // https://s3.eu-central-1.amazonaws.com
	Bucket   string
	Prefix   string // of the keys; the rest of a key is the path of its file
	Region   string // "" asks the server

	AccessKey, SecretKey, SessionToken func() string // nil or "" for none; without keys, requests are anonymous

	// Wanted reports whether a file is to be fetched, by its path. nil wants all.
	Wanted func(path string) bool

	Network
	Limits Limits
}

const (
	s3Workers   = 4
	maxListing  = 32 << 20 // bytes of a page of 1,000 keys
	keysPerPage = 1000
)

// String describes the bucket.
func (s S3) String() string {
	text := "s3 " + strings.TrimSuffix(s.Endpoint, "/") + "/" + s.Bucket
	if s.Prefix != "" {
		text += "/" + s.Prefix
	}
	return text
}

// Fetch lists the bucket, and fetches the objects that are new or changed.
func (s S3) Fetch(ctx context.Context, m *Mirror, progress func(Progress)) (Report, error) {
	s.Limits = s.Limits.withDefaults()
	return run(ctx, m, s.Limits, func(ctx context.Context, r *Report) error {
		f := &s3Fetch{S3: s, m: m, r: r, teller: teller{tell: progress}, listed: map[string]bool{}, keys: map[string]bool{}}
		return f.run(ctx)
	})
}

// An s3Fetch is one fetch of a bucket.
type s3Fetch struct {
	S3
	m    *Mirror
	core *minio.Core

	listed map[string]bool // files
	keys   map[string]bool
	todo   []s3Object
	left   int // objects that are not wanted
	total  int64

	mu sync.Mutex // guards the following
	r  *Report
	teller
}

// An s3Object is an object to fetch.
type s3Object struct {
	file, key, etag string
	size            int64
}

func (f *s3Fetch) run(ctx context.Context) error {
	if err := f.connect(ctx); err != nil {
		return err
	}
	if err := f.list(ctx); err != nil {
		return fmt.Errorf("list the bucket: %w", s3Error(err))
	}
	f.r.Listed = len(f.keys)
	f.Files = f.Done + len(f.todo)
	if f.left > 0 {
		f.r.note("%d objects are of no format that is read, or excluded", f.left)
	}
	if err := f.m.prune(f.listed, f.r); err != nil { // before, as it may free space
		return err
	}
	var work errgroup.Group
	work.SetLimit(s3Workers)
	for _, o := range f.todo {
		work.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := f.object(ctx, o)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.Done++
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				f.r.fail(o.key, s3Error(err))
			default:
				f.r.Fetched++
				f.Bytes += o.size
				f.r.Bytes += o.size
			}
			f.show()
			return nil
		})
	}
	return work.Wait()
}

// connect makes the client.
func (f *s3Fetch) connect(ctx context.Context) (err error) {
	u, err := url.Parse(f.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%q is not the URL of an endpoint", f.Endpoint)
	}
	value := func(secret func() string) string {
		if secret == nil {
			return ""
		}
		return secret()
	}
	transport := &s3Transport{ctx: ctx, next: f.client(f.Limits).Transport}
	f.core, err = minio.NewCore(u.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(value(f.AccessKey), value(f.SecretKey), value(f.SessionToken)),
		Secure: u.Scheme == "https", Region: f.Region, Transport: transport, MaxRetries: 2,
	})
	if err == nil {
		context.AfterFunc(ctx, transport.CloseIdleConnections) // the context of a fetch always ends
	}
	return err
}

// An s3Transport gives the requests of one fetch its context, which those of listings lack, and bounds what
// is decoded in memory.
type s3Transport struct {
	ctx  context.Context
	next http.RoundTripper
}

func (t *s3Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("list-type") || r.URL.Query().Has("location") {
		r = r.WithContext(withLimit(t.ctx, maxListing))
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections closes the connections that are not in use.
func (t *s3Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// list fills todo. A listing that contradicts itself is an error: what it lacks may be there.
func (f *s3Fetch) list(ctx context.Context) error {
	token := ""
	for {
		page, err := f.core.ListObjectsV2(f.Bucket, f.Prefix, "", token, "", keysPerPage)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case page.Name == "" && len(page.Contents) == 0:
			return errors.New("the answer is no listing")
		}
		for _, o := range page.Contents {
			if err := f.add(o); err != nil {
				return err
			}
		}
		switch {
		case !page.IsTruncated:
			return nil
		case page.NextContinuationToken == "", page.NextContinuationToken == token, len(page.Contents) == 0:
			return errors.New("it says that there is more, but not what")
		}
		token = page.NextContinuationToken
	}
}

// add takes an object of the listing.
func (f *s3Fetch) add(o minio.ObjectInfo) error {
	switch {
	case !strings.HasPrefix(o.Key, f.Prefix) || o.Size < 0:
		return fmt.Errorf("it has %q of %d bytes, which was not asked for", o.Key, o.Size)
	case f.keys[o.Key]:
		return fmt.Errorf("it has %q twice", o.Key)
	case len(f.keys) >= f.Limits.Files:
		return fmt.Errorf("it has more than %d objects", f.Limits.Files)
	}
	f.keys[o.Key] = true
	rest := strings.TrimPrefix(strings.TrimPrefix(o.Key, f.Prefix), "/")
	if rest == "" || strings.HasSuffix(rest, "/") {
		return nil // it stands for a folder
	}
	file := fileName(strings.Split(rest, "/"))
	if f.Wanted != nil && !f.Wanted(file) {
		f.left++
		return nil
	}
	if o.Size > f.Limits.File {
		f.r.note("objects of more than %s are not fetched, such as %s", byteSize(f.Limits.File), o.Key)
		return nil
	}
	etag := strings.Trim(o.ETag, `"`)
	if f.total += o.Size; f.total > f.Limits.Bytes {
		return &tooLargeError{"the bucket", f.Limits.Bytes}
	}
	f.listed[file] = true
	if known, ok := f.m.entry(file); ok && known.Version == etag && known.Size == o.Size && etag != "" && f.m.has(file, known) {
		f.r.Unchanged++
		f.Done++
		return nil
	}
	f.todo = append(f.todo, s3Object{file: file, key: o.Key, etag: etag, size: o.Size})
	return nil
}

// object fetches one object.
func (f *s3Fetch) object(ctx context.Context, o s3Object) error {
	body, info, _, err := f.core.GetObject(ctx, f.Bucket, o.key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if info.Size >= 0 && info.Size != o.size {
		return fmt.Errorf("it has %d bytes, but was listed with %d", info.Size, o.size)
	}
	exact := &exactReader{r: body, left: o.size}
	return f.m.put(o.file, entry{Version: o.etag, From: o.key}, exact, f.Limits.File)
}

// An exactReader reports an error unless it has exactly the bytes that it should have.
type exactReader struct {
	r    io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return n, errors.New("it has more bytes than it was listed with")
	case err == io.EOF && e.left > 0:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// s3Error returns an error of a store with its code, without the address of the request.
func s3Error(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		if strings.HasPrefix(of.Err.Error(), "Connection closed by foreign host") { // and the address
			return errors.New("the server closed the connection")
		}
		return of.Err
	}
	var response minio.ErrorResponse
	if errors.As(err, &response) && response.Code != "" {
		return fmt.Errorf("%s: %s", response.Code, strings.TrimSuffix(response.Message, "."))
	}
	return err
}
