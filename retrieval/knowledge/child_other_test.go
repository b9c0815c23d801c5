//go:build !unix

package knowledge_test

func children() map[string]func() error { return nil }
