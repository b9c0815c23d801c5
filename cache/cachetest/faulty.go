package cachetest

import (
	"context"
	"time"

	"sidenote/cache"
)

// An Op is a call of a Store.
type Op string

// The calls.
const (
	Get Op = "get"
	Set Op = "set"
)

// Faulty is a Store that asks before each call. It is how a test makes a store
// fail, hang, panic, or count.
type Faulty struct {
	Store cache.Store
	// Before is called first; its error is the call's, and the call is not made.
	Before func(ctx context.Context, op Op, key string) error
}

// Get asks, then gets.
func (f Faulty) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.Before(ctx, Get, key); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, key)
}

// Set asks, then sets.
func (f Faulty) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if err := f.Before(ctx, Set, key); err != nil {
		return err
	}
	return f.Store.Set(ctx, key, val, ttl)
}
