//go:build !unix

package store_test

// children is empty: the tests that need child processes run on Unix.
func children() map[string]func() error { return nil }
