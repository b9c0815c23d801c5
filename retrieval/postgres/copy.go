package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// A copier encodes rows in the binary format of COPY,
// https://www.postgresql.org/docs/current/sql-copy.html. pgx would first ask for the types of the
// columns, and has none for some of them.
type copier struct {
	b []byte
}

// newCopier returns a copier with the head of the format.
func newCopier() *copier {
	return &copier{append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)}
}

// row begins a row.
func (c *copier) row(columns int) { c.b = binary.BigEndian.AppendUint16(c.b, uint16(columns)) } //nolint:gosec // a constant

func (c *copier) null() { c.b = binary.BigEndian.AppendUint32(c.b, math.MaxUint32) }

func (c *copier) integer(n int) {
	c.b = binary.BigEndian.AppendUint32(c.b, 4)
	c.b = binary.BigEndian.AppendUint32(c.b, uint32(n)) //nolint:gosec // counts of one document
}

func (c *copier) bigint(n int64) {
	c.b = binary.BigEndian.AppendUint32(c.b, 8)
	c.b = binary.BigEndian.AppendUint64(c.b, uint64(n)) //nolint:gosec // two's complement
}

// text adds a text, see storableText.
func (c *copier) text(s string) {
	s = storableText(s)
	c.b = binary.BigEndian.AppendUint32(c.b, uint32(len(s))) //nolint:gosec // Postgres refuses 1 GB
	c.b = append(c.b, s...)
}

// blob adds a bytea; nil is NULL.
func (c *copier) blob(b []byte) {
	if b == nil {
		c.null()
		return
	}
	c.b = binary.BigEndian.AppendUint32(c.b, uint32(len(b))) //nolint:gosec // Postgres refuses 1 GB
	c.b = append(c.b, b...)
}

func (c *copier) jsonb(s string) {
	c.b = binary.BigEndian.AppendUint32(c.b, uint32(len(s)+1)) //nolint:gosec // Postgres refuses 1 GB
	c.b = append(append(c.b, 1), s...)                         // 1 is the version of the format
}

// sized adds a value whose length is known only after it was written.
func (c *copier) sized(write func()) {
	start := len(c.b)
	c.b = binary.BigEndian.AppendUint32(c.b, 0)
	write()
	binary.BigEndian.PutUint32(c.b[start:], uint32(len(c.b)-start-4)) //nolint:gosec // Postgres refuses 1 GB
}

// array adds the head of an array of n elements, which must be added in write.
func (c *copier) array(elementOID uint32, n int, write func()) {
	c.sized(func() {
		dimensions := uint32(1)
		if n == 0 {
			dimensions = 0
		}
		for _, v := range []uint32{dimensions, 0, elementOID} {
			c.b = binary.BigEndian.AppendUint32(c.b, v)
		}
		if n > 0 {
			c.b = binary.BigEndian.AppendUint32(c.b, uint32(n)) //nolint:gosec // Postgres refuses 1 GB
			c.b = binary.BigEndian.AppendUint32(c.b, 1)
		}
		write()
	})
}

// floats adds a real[]; nil is NULL.
func (c *copier) floats(list []float32) {
	if list == nil {
		c.null()
		return
	}
	c.array(pgtype.Float4OID, len(list), func() {
		for _, f := range list {
			c.b = binary.BigEndian.AppendUint32(c.b, 4)
			c.b = binary.BigEndian.AppendUint32(c.b, math.Float32bits(f))
		}
	})
}

// words adds a tsvector of terms. Its positions count the occurrences of each term.
func (c *copier) words(terms []string) {
	sorted := slices.Clone(terms)
	slices.Sort(sorted)
	c.sized(func() {
		head := len(c.b)
		c.b = binary.BigEndian.AppendUint32(c.b, 0)
		distinct := uint32(0)
		for i := 0; i < len(sorted); {
			n := 1
			for i+n < len(sorted) && sorted[i+n] == sorted[i] {
				n++
			}
			if c.lexeme(sorted[i], min(n, mostPositions)) {
				distinct++
			}
			i += n
		}
		binary.BigEndian.PutUint32(c.b[head:], distinct)
	})
}

// maxLexeme is the maximum length of a lexeme that Postgres takes.
const maxLexeme = 2046

func (c *copier) lexeme(term string, n int) bool {
	term = strings.ReplaceAll(strings.ToValidUTF8(term, "\uFFFD"), "\x00", "")
	if term == "" || len(term) > maxLexeme {
		return false
	}
	c.b = append(append(c.b, term...), 0)
	c.b = binary.BigEndian.AppendUint16(c.b, uint16(n)) //nolint:gosec // at most mostPositions
	for i := range n {
		c.b = binary.BigEndian.AppendUint16(c.b, uint16(i+1)) //nolint:gosec // at most mostPositions
	}
	return true
}

// send ends the rows and sends them into columns of a table.
func (c *copier) send(ctx context.Context, to *session, table, columns string) error {
	c.b = binary.BigEndian.AppendUint16(c.b, math.MaxUint16) // the end
	_, err := to.conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(c.b), "copy "+table+" ("+columns+") from stdin (format binary)")
	return err
}
