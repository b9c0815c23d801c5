package record

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"sidenote/cache"
)

// A segment is a file of a ring. It begins with a header:
//
//	"SNREC 1\n"
//	16 random bytes: its id
//	when it was begun, and until when it may be kept (int64, Unix milliseconds)
//	id of its key (uint8 length, bytes)
//	nothing, sealed: it tells whether a key of that id is the same
//	CRC-32C of everything before
//
// Frames follow, one for each entry:
//
//	"SNF1", length of the sealed entry (uint32), CRC-32C of both, the segment's id and the frame's offset
//	the sealed entry: nonce, ciphertext and tag of AES-256-GCM, see cache.Keys.Seal
//
// Numbers are little-endian. The seal of a frame also covers the segment's id, the offset and the
// policy, so that no frame can be moved, repeated or put into another ring. After damage, reading
// goes on at the next frame.
const (
	segmentMagic = "SNREC 1\n"
	frameMagic   = "SNF1"

	segmentIDSize = 16
	frameHead     = len(frameMagic) + 4 + 4
	frameAdded    = frameHead + cache.SealedOverhead

	maxKeyID  = 32 // bytes, as in a key file
	maxHeader = len(segmentMagic) + segmentIDSize + 8 + 8 + 1 + maxKeyID + cache.SealedOverhead + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNotSegment means that a file does not begin as a segment.
var errNotSegment = errors.New("is not a segment of records, or its head is damaged")

// A header is the head of a segment.
type header struct {
	id      [segmentIDSize]byte
	begun   time.Time
	expires time.Time
	key     string // id
	check   []byte // nothing, sealed
	bound   []byte // what check is bound to, besides the policy
	size    int64
}

// newHeader returns the head of a new segment in bytes and as a value.
func newHeader(begun, expires time.Time, keys *cache.Keys, key, policy string) (header, []byte) {
	h := header{begun: begun, expires: expires, key: key}
	_, _ = rand.Read(h.id[:]) // never fails
	b := make([]byte, 0, maxHeader)
	b = append(append(b, segmentMagic...), h.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(begun.UnixMilli()))
	b = binary.LittleEndian.AppendUint64(b, uint64(expires.UnixMilli()))
	b = append(append(b, byte(len(key))), key...)
	h.bound = bytes.Clone(b)
	b = keys.Seal(b, key, nil, append(bytes.Clone(b), policy...))
	h.check = b[len(h.bound):]
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	h.size = int64(len(b))
	return h, b
}

// readHeader reads the head of a segment.
func readHeader(r io.ReaderAt) (header, error) {
	b := make([]byte, maxHeader)
	n, err := r.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	return parseHeader(b[:n])
}

func parseHeader(b []byte) (h header, err error) {
	const keyAt = len(segmentMagic) + segmentIDSize + 8 + 8
	if len(b) <= keyAt || string(b[:len(segmentMagic)]) != segmentMagic {
		return h, errNotSegment
	}
	checkAt := keyAt + 1 + int(b[keyAt])
	sumAt := checkAt + cache.SealedOverhead
	if b[keyAt] > maxKeyID || len(b) < sumAt+4 || binary.LittleEndian.Uint32(b[sumAt:]) != crc32.Checksum(b[:sumAt], castagnoli) {
		return h, errNotSegment
	}
	copy(h.id[:], b[len(segmentMagic):])
	times := b[len(segmentMagic)+segmentIDSize:]
	h.begun = time.UnixMilli(int64(binary.LittleEndian.Uint64(times)))
	h.expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(times[8:])))
	h.key, h.bound, h.check, h.size = string(b[keyAt+1:checkAt]), b[:checkAt], b[checkAt:sumAt], int64(sumAt+4)
	return h, nil
}

// openedBy reports whether keys has the key of a segment of a policy.
func (h *header) openedBy(keys *cache.Keys, policy string) bool {
	if keys == nil {
		return false
	}
	_, err := keys.Open(nil, h.key, h.check, append(bytes.Clone(h.bound), policy...))
	return err == nil
}

// bind appends what the frame at an offset is bound to.
func (h *header) bind(dst []byte, offset int64, policy string) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, h.id[:]...), uint64(offset))
	return append(dst, policy...)
}

// sumFrame returns the checksum of a frame's head.
func (h *header) sumFrame(head []byte, offset int64) uint32 {
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, h.id[:])
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(offset))
	return crc32.Update(sum, castagnoli, at[:])
}

// appendFrame appends the frame of an entry, to be written at an offset.
func (h *header) appendFrame(dst, entry []byte, offset int64, keys *cache.Keys, policy string) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(append(dst, frameMagic...), uint32(len(entry)+cache.SealedOverhead))
	dst = binary.LittleEndian.AppendUint32(dst, h.sumFrame(dst[at:], offset))
	return keys.Seal(dst, h.key, entry, h.bind(nil, offset, policy))
}

// frameLength returns the length of the frame whose head begins b and is at an offset; 0 if it is
// none.
func (h *header) frameLength(b []byte, offset int64) int64 {
	if len(b) < frameHead || string(b[:len(frameMagic)]) != frameMagic ||
		binary.LittleEndian.Uint32(b[frameHead-4:]) != h.sumFrame(b[:frameHead-4], offset) {
		return 0
	}
	n := int64(binary.LittleEndian.Uint32(b[len(frameMagic):]))
	if n < cache.SealedOverhead {
		return 0
	}
	return int64(frameHead) + n
}

// open decrypts the frame at an offset.
func (h *header) open(frame []byte, offset int64, keys *cache.Keys, policy string) ([]byte, error) {
	return keys.Open(nil, h.key, frame[frameHead:], h.bind(nil, offset, policy))
}

// eachEntry calls do with the entries of a segment, whose text is data, until do returns false. It
// returns how often it had to skip damage. A frame that is cut off by the end is not damage: its
// writer was killed, or is writing.
func (h *header) eachEntry(data []byte, keys *cache.Keys, policy string, do func(offset int64, entry []byte) bool) (damaged int) {
	end := int64(len(data))
	lost := false
	for at := h.size; end-at >= int64(frameHead); {
		n := h.frameLength(data[at:], at)
		if n == 0 {
			if !lost {
				damaged++
			}
			lost = true
			next := bytes.Index(data[at+1:], []byte(frameMagic))
			if next < 0 {
				break
			}
			at += 1 + int64(next)
			continue
		}
		if n > end-at {
			break
		}
		lost = false
		entry, err := h.open(data[at:at+n], at, keys, policy)
		if err != nil {
			damaged++
		} else if !do(at, entry) {
			break
		}
		at += n
	}
	return damaged
}

// The kinds of entries. An entry is its kind, its time (int64, Unix nanoseconds) and JSON.
const (
	entryRecord   byte = 'r' // a Record
	entryFeedback byte = 'f' // a feedback
)

const entryHead = 1 + 8

func appendEntry(dst []byte, kind byte, at time.Time, json []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, kind), uint64(at.UnixNano()))
	return append(dst, json...)
}

// readEntry returns the parts of an entry; kind is 0 if it is none.
func readEntry(entry []byte) (kind byte, at time.Time, json []byte) {
	if len(entry) < entryHead {
		return 0, at, nil
	}
	return entry[0], time.Unix(0, int64(binary.LittleEndian.Uint64(entry[1:]))), entry[entryHead:]
}

// A feedback is the application's score of the answer to a recorded request.
type feedback struct {
	ID     string  `json:"id"`
	Tenant string  `json:"tenant"`
	Score  float64 `json:"score"`
}

// segmentName returns the name of the file of a segment.
func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

const (
	segmentSuffix = ".rec"
	newSuffix     = ".new" // of a segment that is being rewritten
	lockName      = "lock"
)

// segmentNumber returns the number of the segment in a file of that name.
func segmentNumber(name string) (number uint64, ok bool) {
	if len(name) != 16+len(segmentSuffix) || name[16:] != segmentSuffix {
		return 0, false
	}
	_, err := fmt.Sscanf(name[:16], "%016x", &number)
	return number, err == nil && segmentName(number) == name
}
