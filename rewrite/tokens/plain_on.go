//go:build sidenote_plain

package tokens

const plain = true
