package cachetest

import (
	"context"
	"time"

	"sidenote/cache"
)

// An Op is a method of a Store.
type Op string

// The calls.
const (
	Get Op = "get"
	Set Op = "set"
)

// Faulty is a Store that calls Before first. Tests use it to make a store fail, hang,
// panic, or count.
type Faulty struct {
	Store cache.Store
	// Before is called first. If it returns an error, that is the result and the Store
	// is not called.
	Before func(ctx context.Context, op Op, key string) error
}

// Get calls Before, then the Store.
func (f Faulty) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.Before(ctx, Get, key); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, key)
}

// Set calls Before, then the Store.
func (f Faulty) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if err := f.Before(ctx, Set, key); err != nil {
		return err
	}
	return f.Store.Set(ctx, key, val, ttl)
}
