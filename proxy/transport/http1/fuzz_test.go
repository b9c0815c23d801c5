package http1_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"sidenote/proxy/transport/http1"
)

// Whatever this package accepts as a complete answer, net/http reads the same way, and the result
// does not depend on how the bytes are split.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nT: 1\r\n\r\n",
		"HTTP/1.1 103 Hint\r\nLink: x\r\n\r\nHTTP/1.0 404 \r\n\r\nuntil close",
		"HTTP/1.1 204 No\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n000000002\r\nok\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		status, body, err := http1.ReadAnswer(bytes.NewReader(raw))
		slowStatus, slowBody, slowErr := http1.ReadAnswer(iotest.OneByteReader(bytes.NewReader(raw)))
		if status != slowStatus || !bytes.Equal(body, slowBody) || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once: %d %q %v; by bytes: %d %q %v", status, body, err, slowStatus, slowBody, slowErr)
		}
		if err != nil || status == 101 {
			return
		}
		br := bufio.NewReader(bytes.NewReader(raw))
		theirs, err := http.ReadResponse(br, nil)
		for err == nil && theirs.StatusCode < 200 {
			theirs, err = http.ReadResponse(br, nil)
		}
		if err != nil {
			return // net/http is stricter about lines that we only relay
		}
		defer theirs.Body.Close()
		want, err := io.ReadAll(theirs.Body)
		if err == nil && (theirs.StatusCode != status || !bytes.Equal(want, body)) {
			t.Fatalf("got %d %q, net/http reads %d %q", status, body, theirs.StatusCode, want)
		}
	})
}
