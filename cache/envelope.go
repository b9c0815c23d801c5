package cache

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"sidenote/retrieval"
)

// A stored value carries its own identity, because stores can mix up replies, hold values of old
// schemas, corrupt bits or be restored from another installation:
//
//	magic "SN", schema version, flags
//	digest of the key (32 bytes)
//	tenant (uvarint length, bytes)
//	id of the key that it is encrypted with, if it is (uvarint length, bytes)
//	body (uint32 length, bytes)
//	CRC-32C of everything before (4 bytes)
//
// Numbers are little-endian. A plain value has no flags. Flags say how a CodecStore changed the
// body; only the store behind a CodecStore holds such values.
const (
	magic      = "SN"
	flagsAt    = len(magic) + 1
	headerSize = flagsAt + 1
	digestSize = len(Key{}.Digest)
	lengthSize = 4
	sumSize    = 4
)

// A Mismatch is the error for a value that is not what was stored under its key. It is from a
// closed list and a metric label; each one counts as a miss.
type Mismatch string

// The kinds of mismatch.
const (
	MismatchVersion    Mismatch = "version"    // not a value of this package, or of another schema
	MismatchChecksum   Mismatch = "checksum"   // corrupt or truncated
	MismatchTenant     Mismatch = "tenant"     // another tenant's
	MismatchKey        Mismatch = "key"        // another key's
	MismatchBody       Mismatch = "body"       // intact, but not in the expected form
	MismatchEncryption Mismatch = "encryption" // not encrypted although required, or with an unknown key
	MismatchSize       Mismatch = "size"       // larger than any stored value
	MismatchType       Mismatch = "type"       // the store holds another type than a string
)

// Error returns a message with the kind.
func (m Mismatch) Error() string { return "cached value: " + string(m) + " mismatch" }

// castagnoli is computed once and never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns the value that stores body, in any format, under k; nil if it is too large.
func Seal(k Key, body []byte) []byte {
	if len(body) > maxBody {
		return nil
	}
	b, bodyAt := seal(make([]byte, 0, sealed+len(k.Tenant)+len(body)), k)
	return finish(append(b, body...), bodyAt)
}

// sealed is an upper bound for the size of a value without tenant and body.
const sealed = 64

// seal appends the beginning of a value for k. The caller appends the body and then calls finish.
func seal(b []byte, k Key) (_ []byte, bodyAt int) {
	b = append(b, magic...)
	b = append(b, schema, 0)
	b = append(b, k.Digest[:]...)
	b = retrieval.AppendString(b, k.Tenant)
	return appendLength(b)
}

// appendLength appends four bytes for the length of a body, which finish sets.
func appendLength(b []byte) (_ []byte, bodyAt int) {
	b = append(b, 0, 0, 0, 0)
	return b, len(b)
}

// finish completes a value whose body begins at bodyAt.
func finish(b []byte, bodyAt int) []byte {
	binary.LittleEndian.PutUint32(b[bodyAt-lengthSize:], uint32(len(b)-bodyAt))
	return appendSum(b)
}

func appendSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// An envelope is a value split into its parts, which are subslices of it.
type envelope struct {
	flags  byte
	head   []byte // everything up to the end of the tenant
	digest []byte
	tenant []byte
	rest   []byte // everything after the tenant, without the checksum
}

// parse splits data, which may only have flags in known. Its error is a Mismatch.
func parse(data []byte, known byte) (envelope, error) {
	if len(data) < headerSize+sumSize || string(data[:len(magic)]) != magic || data[len(magic)] != schema {
		return envelope{}, MismatchVersion
	}
	all, sum := data[:len(data)-sumSize], data[len(data)-sumSize:]
	if crc32.Checksum(all, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return envelope{}, MismatchChecksum
	}
	if data[flagsAt]&^known != 0 {
		return envelope{}, MismatchVersion // unknown or disallowed flags
	}
	if len(all) < headerSize+digestSize {
		return envelope{}, MismatchBody
	}
	tenant, rest, ok := cutString(all[headerSize+digestSize:])
	if !ok {
		return envelope{}, MismatchBody
	}
	return envelope{
		flags:  data[flagsAt],
		head:   all[:len(all)-len(rest)],
		digest: all[headerSize : headerSize+digestSize],
		tenant: tenant,
		rest:   rest,
	}, nil
}

// cutString reads a string with a length prefix.
func cutString(b []byte) (s, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	b = b[width:]
	return b[:n], b[n:], true
}

// bodyIn returns the body in rest, which is a length and as many bytes.
func bodyIn(rest []byte) ([]byte, error) {
	if len(rest) < lengthSize || uint64(binary.LittleEndian.Uint32(rest)) != uint64(len(rest)-lengthSize) {
		return nil, MismatchBody
	}
	return rest[lengthSize:], nil
}

// Body returns the body that was passed to Seal with k, as a subslice of value. Anything else is a
// Mismatch.
func Body(k Key, value []byte) ([]byte, error) {
	e, err := parse(value, 0)
	switch {
	case err != nil:
		return nil, err
	case string(e.tenant) != k.Tenant:
		return nil, MismatchTenant
	case !bytes.Equal(e.digest, k.Digest[:]):
		return nil, MismatchKey
	}
	return bodyIn(e.rest)
}
