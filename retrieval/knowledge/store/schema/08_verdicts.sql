-- Schema 8.

CREATE TABLE verdicts (                            -- on pages that may be in two formats
	base  INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	state BLOB NOT NULL,
	crc   INTEGER NOT NULL
) STRICT;
