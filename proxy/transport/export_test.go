package transport

import (
	"bufio"
	"io"
	"net/url"
)

// Target shows what the request target raw becomes below a base URL's path.
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
	target, ok := appendTarget(nil, u.base, []byte(raw))
	return string(target), ok
}

// ReadAnswer reads raw as an upstream's answer to a GET.
func ReadAnswer(raw io.Reader) (status int, body []byte, err error) {
	br := bufio.NewReaderSize(raw, readerSize)
	_, h, err := readHead(br, nil, false)
	if err != nil {
		return 0, nil, err
	}
	b := newBody(br, &h)
	body, err = io.ReadAll(&b)
	return h.status, body, err
}
