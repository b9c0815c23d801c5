-- Schema 4. Whatever writes documents, be it a tool from outside, removes the
-- blocks in which they are listed.

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
