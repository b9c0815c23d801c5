//go:build sidenote_debug

package transport

// Buffer overwrites a buffer that is returned to a pool.
func Buffer(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xDE
	}
}
