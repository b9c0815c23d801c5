package cache

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A value on its way through a store carries its own identity, for stores mix
// up replies, serve old schemas, lose bits and are restored from elsewhere:
//
//	magic "SN", schema version, flags (0; reserved for compression)
//	digest of the key (32 bytes)
//	tenant (uvarint length, bytes)
//	body (uint32 length, bytes)
//	CRC-32C of everything before (4 bytes)
//
// Numbers are little-endian.
const (
	magic      = "SN"
	headerSize = len(magic) + 2
	digestSize = len(Key{}.Digest)
	lengthSize = 4
	sumSize    = 4
)

// A Mismatch is the error of a value that is not what was stored under its key.
// It is a closed list and a metric label; every one is a miss.
type Mismatch string

// The kinds of mismatch.
const (
	MismatchVersion  Mismatch = "version"  // no value of ours, or of another schema
	MismatchChecksum Mismatch = "checksum" // damaged or cut
	MismatchTenant   Mismatch = "tenant"   // another tenant's
	MismatchKey      Mismatch = "key"      // another key's
	MismatchBody     Mismatch = "body"     // intact, but not in our form
)

// Error names the kind.
func (m Mismatch) Error() string { return "cached value: " + string(m) + " mismatch" }

// castagnoli is computed once; it is read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal begins a value for k; the body is appended to it, then close. size is
// the expected size of the body.
func seal(k Key, size int) (b []byte, bodyAt int) {
	b = make([]byte, 0, headerSize+digestSize+binary.MaxVarintLen64+len(k.Tenant)+lengthSize+size+sumSize)
	b = append(b, magic...)
	b = append(b, schema, 0)
	b = append(b, k.Digest[:]...)
	b = appendString(b, k.Tenant)
	b = append(b, 0, 0, 0, 0) // length of the body, known at the end
	return b, len(b)
}

// finish completes a value that seal began.
func finish(b []byte, bodyAt int) []byte {
	binary.LittleEndian.PutUint32(b[bodyAt-lengthSize:], uint32(len(b)-bodyAt))
	return appendSum(b)
}

func appendSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// open returns the body of a value that must be k's. Its error is a Mismatch.
func open(k Key, data []byte) (body []byte, err error) {
	if len(data) < headerSize+sumSize || string(data[:len(magic)]) != magic || data[len(magic)] != schema {
		return nil, MismatchVersion
	}
	rest, sum := data[:len(data)-sumSize], data[len(data)-sumSize:]
	if crc32.Checksum(rest, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return nil, MismatchChecksum
	}
	if data[len(magic)+1] != 0 {
		return nil, MismatchVersion // flags that this release does not know
	}
	rest = rest[headerSize:]
	if len(rest) < digestSize {
		return nil, MismatchBody
	}
	digest, rest := rest[:digestSize], rest[digestSize:]
	n, width := binary.Uvarint(rest)
	if width <= 0 || n > uint64(len(rest)-width) {
		return nil, MismatchBody
	}
	tenant, rest := rest[width:width+int(n)], rest[width+int(n):]
	if string(tenant) != k.Tenant {
		return nil, MismatchTenant
	}
	if !bytes.Equal(digest, k.Digest[:]) {
		return nil, MismatchKey
	}
	if len(rest) < lengthSize || uint64(binary.LittleEndian.Uint32(rest)) != uint64(len(rest)-lengthSize) {
		return nil, MismatchBody
	}
	return rest[lengthSize:], nil
}
