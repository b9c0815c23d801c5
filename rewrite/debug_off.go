//go:build !sidenote_debug

package rewrite

// debug makes each rewrite count its result anew, and panic if that is not what its
// ledger says.
const debug = false
