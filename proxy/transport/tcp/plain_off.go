//go:build !sidenote_plain

package tcp

// plain turns off what only makes connections faster.
const plain = false
