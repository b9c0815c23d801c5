// Package cache puts a Store in front of anything that finds sources. It knows
// keys, lifetimes and the form of values; it never knows what the sources are
// for. Losing a value costs time, never correctness.
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
	// Set keeps val, which the caller changes no more, for about ttl.
	Set(ctx context.Context, key string, val []byte, ttl time.Duration) error
}
