//go:build sidenote_debug

// Package poison helps tests to notice who uses a buffer that was given back.
package poison

// Buffer overwrites a buffer that is put back into a pool.
func Buffer(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xDE
	}
}
