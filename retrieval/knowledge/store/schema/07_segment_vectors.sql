-- Schema 7.

CREATE TABLE segment_vectors (                     -- of the texts of a segment, see VectorFiles
	segment INTEGER PRIMARY KEY REFERENCES segment ON DELETE CASCADE,
	name    TEXT NOT NULL UNIQUE,                  -- of the file
	size    INTEGER NOT NULL,                      -- of the file, bytes
	crc     INTEGER NOT NULL                       -- of the file
) STRICT;
