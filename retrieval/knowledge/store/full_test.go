//go:build unix

package store_test

func meetLimit() error { return nil }
