package transport

import (
	"net/url"

	"sidenote/proxy/transport/http1"
)

// Target returns the upstream's target for the request target raw and a base URL's path.
func Target(base, raw string) (string, bool) {
	path, err := url.Parse(base)
	if err != nil {
		return err.Error(), false
	}
	path.Scheme, path.Host = "http", "upstream"
	u, err := NewUpstream(Config{BaseURL: path})
	if err != nil {
		return err.Error(), false
	}
	target, ok := http1.AppendTarget(nil, u.base, []byte(raw), "")
	return string(target), ok
}

// Narrow gives u's open connections small write buffers.
func Narrow(u *Upstream) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		if err := c.tcp.SetWriteBuffer(64 << 10); err != nil {
			return err
		}
	}
	return nil
}

// Uploaded reports whether the request of r is no longer being sent.
func Uploaded(r *Answer) bool { return r.x.upload == nil || r.x.upload.finished() }

// Unused returns the number of connections of s without a request.
func Unused(s *Server) (n int) {
	for _, c := range s.guard.clients.set.All() {
		if state, _ := c.State(); state != Serving && state != ReadingHead {
			n++
		}
	}
	return n
}
