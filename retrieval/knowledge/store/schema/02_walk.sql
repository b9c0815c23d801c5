-- Schema 2.

CREATE TABLE walk (                                -- of folders, the last time that all of one was looked at
	base    INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	at      INTEGER NOT NULL,                      -- when, Unix nanoseconds
	sources BLOB NOT NULL,                         -- a digest of 8 bytes for each source of documents, ascending
	crc     INTEGER NOT NULL
) STRICT;
