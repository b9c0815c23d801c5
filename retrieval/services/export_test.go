package services

import "net/http"

// SetTransport makes a client send its requests by t.
func SetTransport(c *Embedder, t http.RoundTripper) { c.remote.HTTP.Transport = t }
