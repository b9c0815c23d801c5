//go:build sidenote_debug

package transport_test

import (
	"bytes"
	"testing"

	"sidenote/proxy/transport"
)

// A returned buffer is overwritten completely, including the part beyond its length.
func TestPoison(t *testing.T) {
	b := make([]byte, 100)
	if transport.PoisonBuffer(b[:10]); bytes.IndexByte(b, 0) >= 0 {
		t.Errorf("left %x", b)
	}
}
