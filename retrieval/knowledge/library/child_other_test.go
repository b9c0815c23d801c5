//go:build !unix

package library_test

func children() map[string]func() error { return nil }
