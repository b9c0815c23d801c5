package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

// applicationID identifies our databases: "SNkb".
const applicationID = 0x534e6b62

// schemaFiles are the steps, by number.
//
//go:embed schema/*.sql
var schemaFiles embed.FS

// schema returns the steps that make the schema, oldest first. The schema version of a database is
// the number of its steps. A released step never changes.
func schema() (texts []string) {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, name := range names { // in lexical order
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		texts = append(texts, string(text))
	}
	return texts
}

// upgrade applies the missing steps to the database in one transaction: all or none.
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
