-- Schema 6.

CREATE TABLE vector (                              -- by what they were made of, see Vectors
	row   INTEGER PRIMARY KEY,
	key   BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
	crc   INTEGER NOT NULL,
	value BLOB NOT NULL
) STRICT;
CREATE TABLE vector_use (                          -- apart from them, so that noting it writes little
	vector INTEGER PRIMARY KEY REFERENCES vector ON DELETE CASCADE,
	day    INTEGER NOT NULL                        -- of the last use, since 1970
) STRICT;
CREATE TABLE vector_noted (                        -- the bases whose uses were noted
	base INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	day  INTEGER NOT NULL
) STRICT;
CREATE TABLE vector_space (
	name TEXT PRIMARY KEY,
	size INTEGER NOT NULL                          -- of each of its vectors, bytes
) STRICT, WITHOUT ROWID;
CREATE TABLE vector_spent (
	day    INTEGER PRIMARY KEY,
	tokens INTEGER NOT NULL
) STRICT;
