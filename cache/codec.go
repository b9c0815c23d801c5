package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"sidenote/retrieval"
)

// Flags for the steps that a CodecStore applied to a value, in this order.
const (
	flagCompressed byte = 1 << iota // zstd
	flagEncrypted                   // AES-256-GCM
)

const (
	// maxPlain limits values before encoding, and so after decoding.
	maxPlain = 8 << 20
	// maxAdded is the most that encryption, length and checksum add.
	maxAdded  = 128
	maxStored = maxPlain + maxAdded
	// minCompressed is the smallest body that is compressed. Compression saves 220 of 512 bytes of
	// English, but only some 100 of 256, which is less than the store's overhead per entry.
	minCompressed = 512
	// minSaved: compression must save at least 1/minSaved of a body, since less is not worth
	// decompressing at every hit.
	minSaved = 8
	// maxInflation limits the ratio of a body to its compressed form. Text stays far below it. So
	// the memory allocated for decoding depends on the bytes present, not on the length they
	// claim.
	maxInflation = 256
	// compressionWindow is the window of the compressor. Values are rarely larger, and each
	// encoder takes a few times as much memory.
	compressionWindow = 256 << 10
)

// A CodecStore is a Store that compresses values where that saves enough and, with Keys, encrypts
// them. It is meant for a remote store, which costs traffic for every byte and which others may
// read. Its callers see plain values, as made by Encode; the next store gets
//
//	the head of the plain value, with flags
//	id of the key, if encrypted (uvarint length, bytes)
//	body (uint32 length, bytes)
//	CRC-32C of everything before
//
// A compressed body is the plain body's length (uvarint) and a zstd frame. An encrypted body is
// the nonce, ciphertext and tag of the compressed or plain body. Flags, digest, tenant and key id
// are authenticated with it, so that none of them can be exchanged.
//
// Anything malformed is a Mismatch. With Keys, so is everything that is not encrypted with one of
// them.
type CodecStore struct {
	next    Store
	keys    *Keys
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewCodecStore returns a CodecStore in front of next. If keys is nil, it does not encrypt.
func NewCodecStore(next Store, keys *Keys) *CodecStore {
	if keys != nil && keys.ring == nil {
		panic("BUG: keys that ParseKeys has not made")
	}
	// Both run in the caller's goroutine, with at most one call per processor.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(compressionWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: zstd encoder: " + err.Error())
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPlain),
		zstd.WithDecodeAllCapLimit(true)) // fails instead of growing the given buffer
	if err != nil {
		panic("BUG: zstd decoder: " + err.Error())
	}
	return &CodecStore{next: next, keys: keys, encoder: encoder, decoder: decoder}
}

// Get returns the plain value of key.
func (p *CodecStore) Get(ctx context.Context, key string) ([]byte, error) {
	stored, err := p.next.Get(ctx, key)
	if err != nil || stored == nil {
		return nil, err
	}
	return p.decode(stored)
}

// Set encodes and stores val, which must be a plain value.
func (p *CodecStore) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	encoded, err := p.encode(val)
	if err != nil {
		return fmt.Errorf("pack value of %d bytes: %w", len(val), err)
	}
	return p.next.Set(ctx, key, encoded, ttl)
}

// encode returns the encoded form of val.
func (p *CodecStore) encode(val []byte) ([]byte, error) {
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
	b = retrieval.AppendString(b, id)
	bound := len(b)
	b, bodyAt := appendLength(b)
	return finish(key.Seal(b, nil, body, b[:bound]), bodyAt), nil
}

// compress returns the compressed form of body, nil if that saves too little.
func (p *CodecStore) compress(body []byte) []byte {
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

// decode returns the plain form of stored. Its error is a Mismatch.
func (p *CodecStore) decode(stored []byte) ([]byte, error) {
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
	return finish(append(b, text...), bodyAt), nil // DecodeAll wrote it into b, so append copies it onto itself
}

// decrypt returns the decrypted body of e, the envelope of stored.
func (p *CodecStore) decrypt(stored []byte, e envelope) ([]byte, error) {
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

// frameIn returns the zstd frame of a compressed body, and its claimed decompressed length.
func frameIn(body []byte) (frame []byte, length int, err error) {
	n, width := binary.Uvarint(body)
	if width <= 0 || n > maxPlain || n > maxInflation*uint64(len(body)-width) {
		return nil, 0, MismatchBody
	}
	return body[width:], int(n), nil
}
