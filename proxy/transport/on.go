//go:build sidenote_debug

package transport

// PoisonBuffer overwrites a buffer that is returned to a pool.
func PoisonBuffer(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xDE
	}
}
