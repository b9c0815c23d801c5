//go:build sidenote_plain

package retrieval

const plain = true
