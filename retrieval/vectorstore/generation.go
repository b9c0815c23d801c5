package vectorstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// A store elsewhere can change without our knowing, and what is cached is held by
// the base's generation. So somebody looks at the store's state now and then
// (Options.Every), and the generation is a digest of what it tells:
//
//   - a Sidenote tells its own generation, also with each search, so a change shows
//     with the first search that is not answered from a cache;
//   - any other API tells how many files and bytes it holds, in which states. When
//     it was last active is not looked at, for that is the last search;
//   - one that never told anything gets another generation every half minute, so
//     that what is cached ages out, and the base can be searched all the same.
//
// Looks that fail leave the generation that there is.

// version names what this package makes of answers: change it with decode.go.
const version = "1"

// window is how long a generation holds where the store tells nothing.
const window = 30 * time.Second

// look looks at the store until ctx ends.
func (b *Base) look(ctx context.Context) {
	defer close(b.ended)
	defer b.asked()
	again := time.NewTicker(b.options.Every)
	defer again.Stop()
	for {
		_ = b.Refresh(ctx) // Trouble tells of it
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh looks at the store now.
func (b *Base) Refresh(ctx context.Context) error {
	defer b.asked()
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	body, err := b.client.store(ctx)
	var s store
	if err == nil {
		s, err = decodeStore(body)
	}
	b.health.looked(err)
	if err != nil {
		return err
	}
	if own := s.generation(); own != "" {
		b.set(b.told(own))
	} else {
		b.set(b.digest("store", s.Status, strconv.FormatInt(s.CreatedAt, 10), strconv.FormatInt(s.UsageBytes, 10), s.counts()))
	}
	if b.options.Looked != nil {
		b.options.Looked(s.FileCounts.Completed, s.UsageBytes)
	}
	return nil
}

// told is the generation here of a Sidenote's own: the same content is the same
// wherever it is kept.
func (b *Base) told(own string) string {
	return hexDigest("sidenote", version, b.options.Version, own)
}

func (b *Base) set(generation string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation = generation
}

// adopt takes over a generation that a search told which began when there was
// another one: unless somebody knows a newer one by now.
func (b *Base) adopt(generation, before string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.generation == before || b.generation == "" {
		b.generation = generation
	}
}

// windowGeneration is the generation at a time of a store that told nothing.
func (b *Base) windowGeneration(at time.Time) string {
	return b.digest("window", strconv.FormatInt(at.Unix()/int64(window.Seconds()), 10))
}

// digest is a generation of this very store.
func (b *Base) digest(values ...string) string {
	return hexDigest(append([]string{version, b.options.Version, b.client.base, b.options.Store}, values...)...)
}

// hexDigest digests values with their lengths before them, so that no two lists
// look the same.
func hexDigest(values ...string) string {
	var out []byte
	for _, v := range values {
		out = binary.AppendUvarint(out, uint64(len(v)))
		out = append(out, v...)
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:])
}
