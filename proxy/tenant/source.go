package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"syscall"
)

// KeysFromURL returns the KeySource of a JWKS fetched by HTTP with a limit of 1 MiB, without
// following redirects. It honours HTTPS_PROXY and the like.
func KeysFromURL(address string) KeySource {
	client := &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: fetchWait},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return KeySource{Every: refreshEvery, Read: func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", address, err)
		}
		req.Header.Set("Accept", "application/jwk-set+json, application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", address, cause(err))
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("fetch %s: it answers %d", address, resp.StatusCode)
		}
		text, err := readAll(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", address, cause(err))
		}
		return text, nil
	}}
}

// KeysFromFile returns the KeySource of a JWKS file, which may be replaced at any time.
func KeysFromFile(path string) KeySource {
	return KeySource{Every: rereadEvery, Read: func(context.Context) ([]byte, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // reading a pipe could block
			return nil, fmt.Errorf("read keys of %s: %w", path, cmp.Or(err, errors.New("is not a regular file")))
		}
		text, err := readAll(f)
		if err != nil {
			return nil, fmt.Errorf("read keys of %s: %w", path, err)
		}
		return text, nil
	}}
}

// readAll reads at most one byte more than a JWKS may have, so that parseKeys refuses longer ones.
func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, maxKeySet+1)) }

// cause returns the cause of a net/http error without its method and URL.
func cause(err error) error {
	var u *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", fetchWait)
	case errors.As(err, &u):
		return u.Err
	}
	return err
}
