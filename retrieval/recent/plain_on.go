//go:build sidenote_plain

package recent

const plain = true
