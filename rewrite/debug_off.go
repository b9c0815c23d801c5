//go:build !sidenote_debug

package rewrite

// debug makes each rewrite recount what it made, and panic where that is not what
// its ledger says.
const debug = false
