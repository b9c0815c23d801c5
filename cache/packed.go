package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// What a Packed has done to a value, in this order.
const (
	flagCompressed byte = 1 << iota // zstd
	flagEncrypted                   // AES-256-GCM
)

const (
	// maxPlain bounds a value before it is packed, and so what unpacking makes.
	maxPlain = 8 << 20
	// maxAdded bounds what encrypting adds, with the length and the checksum.
	maxAdded  = 128
	maxStored = maxPlain + maxAdded
	// minCompressed is the least body worth a try: of 512 bytes of English 220 go,
	// of 256 some 100, which is less than the store spends on the entry.
	minCompressed = 512
	// minSaved is the part of a body that must go, or it is kept as it is: a
	// smaller saving does not pay for decompressing at every hit.
	minSaved = 8
	// maxInflation is how many times its size a body may become. Text does not
	// come near it; with it, what unpacking allocates depends on what is there
	// rather than on what it claims to be.
	maxInflation = 256
	// window is how far back compression looks. Values are rarely larger, and each
	// encoder keeps a few times as much.
	window = 256 << 10
)

// A Packed is a Store whose values are compressed where it pays and, with Keys,
// encrypted. It is meant for a store far away, where every byte travels and
// others may look. In and out go plain values, as of Encode; Next keeps
//
//	the head of the plain value, with flags
//	id of the key, if encrypted (uvarint length, bytes)
//	body (uint32 length, bytes)
//	CRC-32C of everything before
//
// A compressed body is the plain one's length (uvarint) and a zstd frame. An
// encrypted one is nonce, ciphertext and tag of that or of the plain one, and
// holds only with the flags, digest, tenant and key id before it: neither can be
// exchanged for another.
//
// What is not as it should be is a Mismatch. With Keys, so is everything that is
// not encrypted with one of them.
type Packed struct {
	next    Store
	keys    *Keys
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewPacked returns a Packed that keeps its values in next; keys of nil do not
// encrypt.
func NewPacked(next Store, keys *Keys) *Packed {
	if keys != nil && keys.ring == nil {
		panic("BUG: keys that ParseKeys has not made")
	}
	// Both work in the caller's goroutine, as many at once as there are processors.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: zstd encoder: " + err.Error())
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPlain),
		zstd.WithDecodeAllCapLimit(true)) // it fails rather than outgrow what it is given
	if err != nil {
		panic("BUG: zstd decoder: " + err.Error())
	}
	return &Packed{next: next, keys: keys, encoder: encoder, decoder: decoder}
}

// Get returns the plain value of key.
func (p *Packed) Get(ctx context.Context, key string) ([]byte, error) {
	stored, err := p.next.Get(ctx, key)
	if err != nil || stored == nil {
		return nil, err
	}
	return p.unpack(stored)
}

// Set packs and keeps val, which must be a plain value.
func (p *Packed) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	packed, err := p.pack(val)
	if err != nil {
		return fmt.Errorf("pack value of %d bytes: %w", len(val), err)
	}
	return p.next.Set(ctx, key, packed, ttl)
}

// pack returns what is kept of val.
func (p *Packed) pack(val []byte) ([]byte, error) {
	if len(val) > maxPlain {
		return nil, MismatchSize
	}
	e, err := parse(val, 0)
	if err != nil {
		return nil, err
	}
	body, err := bodyIn(e.rest)
	if err != nil {
		return nil, err
	}
	flags := byte(0)
	if smaller := p.compress(body); smaller != nil {
		body, flags = smaller, flagCompressed
	}
	b := make([]byte, 0, len(e.head)+len(body)+maxAdded)
	b = append(b, e.head...)
	if p.keys == nil {
		b[flagsAt] = flags
		b, bodyAt := appendLength(b)
		return finish(append(b, body...), bodyAt), nil
	}
	b[flagsAt] = flags | flagEncrypted
	id, key := p.keys.current()
	b = appendString(b, id)
	bound := len(b)
	b, bodyAt := appendLength(b)
	return finish(key.Seal(b, nil, body, b[:bound]), bodyAt), nil
}

// compress returns nil if that does not pay.
func (p *Packed) compress(body []byte) []byte {
	if len(body) < minCompressed {
		return nil
	}
	b := binary.AppendUvarint(make([]byte, 0, len(body)), uint64(len(body)))
	lengthEnd := len(b)
	b = p.encoder.EncodeAll(body, b)
	if len(b) > len(body)-len(body)/minSaved || len(body) > maxInflation*(len(b)-lengthEnd) {
		return nil
	}
	return b
}

// unpack returns the plain value that stored was made of. Its error is a
// Mismatch.
func (p *Packed) unpack(stored []byte) ([]byte, error) {
	if len(stored) > maxStored {
		return nil, MismatchSize
	}
	e, err := parse(stored, flagCompressed|flagEncrypted)
	if err != nil {
		return nil, err
	}
	var body []byte
	if e.flags&flagEncrypted != 0 || p.keys != nil {
		body, err = p.decrypt(stored, e)
	} else {
		body, err = bodyIn(e.rest)
	}
	switch {
	case err != nil:
		return nil, err
	case e.flags == 0:
		return stored, nil
	}
	length := len(body)
	if e.flags&flagCompressed != 0 {
		if body, length, err = frameIn(body); err != nil {
			return nil, err
		}
	}
	b := make([]byte, 0, len(e.head)+lengthSize+length+sumSize)
	b = append(b, e.head...)
	b[flagsAt] = 0
	b, bodyAt := appendLength(b)
	if e.flags&flagCompressed == 0 {
		return finish(append(b, body...), bodyAt), nil
	}
	text, err := p.decoder.DecodeAll(body, b[bodyAt:bodyAt:bodyAt+length])
	if err != nil || len(text) != length {
		return nil, MismatchBody
	}
	return finish(append(b, text...), bodyAt), nil // in place already
}

// decrypt returns the body of e, the envelope of stored, as it was before it was
// encrypted.
func (p *Packed) decrypt(stored []byte, e envelope) ([]byte, error) {
	if e.flags&flagEncrypted == 0 || p.keys == nil {
		return nil, MismatchEncryption
	}
	id, rest, ok := cutString(e.rest)
	if !ok {
		return nil, MismatchBody
	}
	body, err := bodyIn(rest)
	if err != nil {
		return nil, err
	}
	key := p.keys.find(id)
	if key == nil {
		return nil, MismatchEncryption
	}
	bound := stored[:len(stored)-sumSize-len(rest)]
	if body, err = key.Open(nil, nil, body, bound); err != nil {
		return nil, MismatchEncryption
	}
	return body, nil
}

// frameIn returns the zstd frame in a compressed body, and what length it is
// said to have.
func frameIn(body []byte) (frame []byte, length int, err error) {
	n, width := binary.Uvarint(body)
	if width <= 0 || n > maxPlain || n > maxInflation*uint64(len(body)-width) {
		return nil, 0, MismatchBody
	}
	return body[width:], int(n), nil
}
