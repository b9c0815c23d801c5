-- Schema 5.

CREATE TABLE calibration (                         -- of a large base, what is costly to measure
	base  INTEGER PRIMARY KEY REFERENCES base ON DELETE CASCADE,
	state BLOB NOT NULL,
	crc   INTEGER NOT NULL
) STRICT;
