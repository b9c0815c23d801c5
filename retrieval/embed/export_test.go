package embed

import "net/http"

// SetTransport lets a client send its requests by t.
func SetTransport(c *Client, t http.RoundTripper) { c.remote.HTTP.Transport = t }
