-- Schema 3.

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
