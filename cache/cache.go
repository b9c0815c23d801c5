// Package cache puts Stores in front of anything that finds something. It knows keys,
// lifetimes and the form of values, and nothing of what the values are for. Losing a
// value costs time, never correctness.
package cache

import (
	"context"
	"time"
)

// A Store keeps bytes for a while. Losing them costs time, never correctness.
// Implementations are safe for concurrent use and return by ctx's deadline.
type Store interface {
	// Get returns nil, nil when key is absent. The caller does not change the bytes.
	Get(ctx context.Context, key string) ([]byte, error)
	// Set keeps val for about ttl. The caller does not change val any more.
	Set(ctx context.Context, key string, val []byte, ttl time.Duration) error
}
