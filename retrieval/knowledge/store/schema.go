package store

import (
	"context"
	"database/sql"
	"fmt"
)

// applicationID marks our databases: "SNkb".
const applicationID = 0x534e6b62

// schema returns the steps that make the schema, oldest first; its version is how
// many of them a database has. A step that was released never changes.
func schema() []string {
	return []string{firstSchema, walkSchema, remarkSchema, stampSchema, calibrationSchema}
}

// firstSchema is schema 1.
//
// A chunk's row is its document's row · 2²⁰ + its place, so that the chunks of a
// document lie together, need no index of their own and, as rows of documents are
// never given out twice, are never given out twice either. A crc is of the whole row:
// damage that SQLite cannot see is not served.
const firstSchema = `
CREATE TABLE state (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	version INTEGER NOT NULL                       -- of the last transaction
) STRICT;
INSERT INTO state VALUES (1, 0);

CREATE TABLE change (                              -- of bases, also of those that are gone
	base    TEXT PRIMARY KEY,
	version INTEGER NOT NULL                       -- of the last transaction that touched it
) STRICT, WITHOUT ROWID;

CREATE TABLE base (
	row       INTEGER PRIMARY KEY AUTOINCREMENT,
	id        TEXT NOT NULL UNIQUE,
	origin    TEXT NOT NULL,                       -- the folder that it is kept with; '' is none
	documents INTEGER NOT NULL,
	chunks    INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,                    -- of the chunks' texts
	sum       BLOB NOT NULL CHECK (length(sum) = 32),
	version   INTEGER NOT NULL,                    -- of the last change of documents
	changed   INTEGER NOT NULL,                    -- when, Unix nanoseconds
	crc       INTEGER NOT NULL
) STRICT;

CREATE TABLE document (
	row        INTEGER PRIMARY KEY AUTOINCREMENT,
	base       INTEGER NOT NULL REFERENCES base ON DELETE CASCADE,
	id         TEXT NOT NULL,
	name       TEXT NOT NULL,
	kind       TEXT NOT NULL,
	source     TEXT NOT NULL,
	size       INTEGER NOT NULL,                   -- of the source, bytes
	modified   INTEGER NOT NULL,                   -- the source, Unix nanoseconds; 0 is unknown
	mark       INTEGER NOT NULL,                   -- tells this version of the source from others
	hash       BLOB NOT NULL CHECK (length(hash) = 32),
	attributes TEXT NOT NULL,                      -- JSON object
	sum        BLOB NOT NULL CHECK (length(sum) = 32),
	chunks     INTEGER NOT NULL,
	bytes      INTEGER NOT NULL,                   -- of the chunks' texts
	crc        INTEGER NOT NULL,
	UNIQUE (base, id)
) STRICT;

CREATE TABLE chunk (
	row     INTEGER PRIMARY KEY,                   -- document.row << 20 | place
	section TEXT NOT NULL,
	text    TEXT NOT NULL,
	tokens  TEXT NOT NULL,                         -- "encoding=count encoding=count"
	crc     INTEGER NOT NULL
) STRICT;
CREATE TRIGGER document_gone AFTER DELETE ON document BEGIN
	DELETE FROM chunk WHERE row >= OLD.row << 20 AND row < (OLD.row + 1) << 20;
END;

CREATE TABLE segment (
	row     INTEGER PRIMARY KEY AUTOINCREMENT,
	base    INTEGER NOT NULL REFERENCES base ON DELETE CASCADE,
	name    TEXT NOT NULL UNIQUE,                  -- of the file
	size    INTEGER NOT NULL,                      -- of the file, bytes
	crc     INTEGER NOT NULL,                      -- of the file and covers
	covers  BLOB NOT NULL                          -- document rows, ascending, differences as varints
) STRICT;
CREATE INDEX segment_base ON segment (base);
`

// walkSchema is schema 2.
const walkSchema = `
CREATE TABLE walk (                                -- of folders, the last time that all of one was looked at
	base    INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	at      INTEGER NOT NULL,                      -- when, Unix nanoseconds
	sources BLOB NOT NULL,                         -- a digest of 8 bytes for each source of documents, ascending
	crc     INTEGER NOT NULL
) STRICT;
`

// remarkSchema is schema 3.
const remarkSchema = `
CREATE TABLE remark (                              -- on sources, see Remark
	base      INTEGER NOT NULL REFERENCES base ON DELETE CASCADE,
	source    TEXT NOT NULL,
	size      INTEGER NOT NULL,
	modified  INTEGER NOT NULL,                    -- Unix nanoseconds
	mark      INTEGER NOT NULL,
	reader    BLOB NOT NULL,
	documents INTEGER NOT NULL,
	text      TEXT NOT NULL,
	crc       INTEGER NOT NULL,
	PRIMARY KEY (base, source)
) STRICT, WITHOUT ROWID;
`

// stampSchema is schema 4. Whatever writes documents, be it a tool from outside, removes the
// blocks in which they are listed.
const stampSchema = `
CREATE TABLE stamp (                               -- the documents of a base in short, in blocks by row
	base      INTEGER NOT NULL REFERENCES base ON DELETE CASCADE,
	block     INTEGER NOT NULL,                    -- row >> 9
	documents INTEGER NOT NULL,                    -- in the block
	crc       INTEGER NOT NULL,
	list      BLOB NOT NULL,                       -- row and hash of each, ascending
	PRIMARY KEY (base, block)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER stamp_insert AFTER INSERT ON document BEGIN
	DELETE FROM stamp WHERE base = NEW.base AND block = NEW.row >> 9;
END;
CREATE TRIGGER stamp_delete AFTER DELETE ON document BEGIN
	DELETE FROM stamp WHERE base = OLD.base AND block = OLD.row >> 9;
END;
CREATE TRIGGER stamp_update AFTER UPDATE OF row, base, hash ON document
WHEN OLD.hash IS NOT NEW.hash OR OLD.row <> NEW.row OR OLD.base <> NEW.base BEGIN
	DELETE FROM stamp WHERE base = OLD.base AND block = OLD.row >> 9;
	DELETE FROM stamp WHERE base = NEW.base AND block = NEW.row >> 9;
END;
`

// calibrationSchema is schema 5.
const calibrationSchema = `
CREATE TABLE calibration (                         -- of a large base, what is costly to measure
	base  INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	state BLOB NOT NULL,
	crc   INTEGER NOT NULL
) STRICT;
`

// upgrade takes the database through the steps that it lacks, in one transaction:
// it has all of them afterwards or, failing, the ones it had.
func upgrade(ctx context.Context, db *sql.DB, path string, steps []string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return classify(path, err)
	}
	defer func() { _ = tx.Rollback() }()
	var have int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return classify(path, err)
	}
	switch {
	case have > len(steps):
		return &SchemaError{Path: path, Have: have, Know: len(steps)}
	case have == len(steps):
		return nil
	case have < 0:
		return &CorruptError{Path: path, Err: fmt.Errorf("its schema has version %d", have)}
	}
	for i, step := range steps[have:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("upgrade to schema %d: %w", have+i+1, classify(path, err))
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return classify(path, err)
	}
	return classify(path, tx.Commit())
}
