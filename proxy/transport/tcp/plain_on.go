//go:build sidenote_plain

package tcp

const plain = true
