package vectorstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// An external store can change without notice, and caches use the base's generation as a key. So
// the state of the store is read every half minute, and the generation is a digest of it:
//
//  - a Sidenote reports its own generation, also with each search, so a change shows with
//    the first search that is not answered from a cache;
//  - any other API reports its number of files and bytes and their states, and lists the
//    files: a replaced document is another file, and attributes are in the list. The time of
//    its last activity is left out, as every search changes it;
//  - if the files are not listed, are too many, or the state was never read, the generation
//    changes every half minute, so that cached results expire while the base can be
//    searched.
//
// If reading the state fails, the generation stays.

// version is the version of the decoding: change it with decode.go.
const version = "2"

// window is how long a generation is valid if the store does not show its changes.
const window = 30 * time.Second

// The list of files is read in pages, unless the store has more than maxFiles.
const (
	filesOfPage = 100
	maxFiles    = 1000
)

// A state is the state reported by a store.
type state struct {
	digest string // "": not read yet
	ages   bool   // incomplete, so the generation must expire
	joint  bool   // of a Sidenote that searches several stores as one
}

// look reads the state of the store periodically until ctx ends.
func (b *Base) look(ctx context.Context) {
	defer close(b.ended)
	defer b.asked()
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		_ = b.Refresh(ctx) // Trouble reports the error
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh reads the state of the store now.
func (b *Base) Refresh(ctx context.Context) error {
	defer b.asked()
	body, err := b.within(ctx, b.api.state)
	var s store
	if err == nil {
		s, err = decodeStore(body)
	}
	b.health.Looked(err)
	if err != nil {
		return err
	}
	if own := s.generation(); own != "" {
		b.set(state{digest: b.told(own), joint: s.joint()})
	} else if files, all := b.files(ctx, s); ctx.Err() == nil {
		b.set(state{b.digest("store", s.Status, strconv.FormatInt(s.CreatedAt, 10), strconv.FormatInt(s.UsageBytes, 10), s.counts(), files), !all, false})
	}
	if b.options.Looked != nil {
		b.options.Looked(s.FileCounts.Completed, s.UsageBytes)
	}
	return nil
}

// within makes a call with the timeout of a call.
func (b *Base) within(ctx context.Context, call func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	return call(ctx)
}

// files returns a digest of the store's files; all is false if they are too many, or not listed.
func (b *Base) files(ctx context.Context, s store) (digest string, all bool) {
	if s.FileCounts.Total > maxFiles {
		return "", false
	}
	var files []string
	for after := ""; len(files) <= maxFiles; {
		body, err := b.within(ctx, func(ctx context.Context) ([]byte, error) { return b.api.files(ctx, after) })
		if err != nil {
			return "", false
		}
		page, err := decodeFiles(body)
		if err != nil {
			return "", false
		}
		files = append(files, page.files...)
		if !page.more {
			slices.Sort(files)
			return hexDigest(files...), true
		}
		if page.last == "" || page.last == after {
			return "", false
		}
		after = page.last
	}
	return "", false
}

// told returns the generation for a Sidenote's own generation: the same content gives the same
// generation, wherever it is stored.
func (b *Base) told(own string) string {
	return hexDigest("sidenote", version, b.options.Version, own)
}

func (b *Base) state() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

func (b *Base) set(s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = s
}

// adopt sets the state from the answer to a search, unless the state has changed since the search
// began.
func (b *Base) adopt(s, before state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == before || b.known.digest == "" {
		b.known = s
	}
}

// generation returns the generation of a state at a time.
func (b *Base) generation(s state, at time.Time) string {
	if s.digest != "" && !s.ages {
		return s.digest
	}
	return b.digest("window", s.digest, strconv.FormatInt(at.Unix()/int64(window.Seconds()), 10))
}

// digest returns a generation that is specific to this store.
func (b *Base) digest(values ...string) string {
	return hexDigest(append([]string{version, b.options.Version, apiURL(b.options.BaseURL), b.options.Store}, values...)...)
}

// hexDigest hashes values with their lengths, so that different lists never give the same input.
func hexDigest(values ...string) string {
	var out []byte
	for _, v := range values {
		out = binary.AppendUvarint(out, uint64(len(v)))
		out = append(out, v...)
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:])
}
