//go:build sidenote_debug

package rewrite

const debug = true
