//go:build !unix

package store_test

// children is empty: the tests that need some are of Unix.
func children() map[string]func() error { return nil }
