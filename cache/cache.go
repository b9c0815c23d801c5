// Package cache puts Stores in front of searches and other slow calls. It defines keys, lifetimes
// and the format of values, but not their meaning. Losing a value costs time, never correctness.
package cache

import (
	"context"
	"time"
)

// A Store keeps bytes for a limited time. Losing them costs time, never correctness.
// Implementations are safe for concurrent use and return by ctx's deadline.
type Store interface {
	// Get returns nil, nil if key is absent. The caller must not change the bytes.
	Get(ctx context.Context, key string) ([]byte, error)
	// Set keeps val for about ttl. The caller must not change val afterwards.
	Set(ctx context.Context, key string, val []byte, ttl time.Duration) error
}
