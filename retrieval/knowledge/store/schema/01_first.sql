-- Schema 1.
--
-- A chunk's row is its document's row · 2²⁰ + its place, so that the chunks of a
-- document lie together, need no index of their own and, as rows of documents are
-- never given out twice, are never given out twice either. A crc is of the whole row:
-- damage that SQLite cannot see is not served.

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
