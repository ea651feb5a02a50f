// SPDX-License-Identifier: Apache-2.0

// Package database has the SQL database of the examples, SQLite in memory.
package database

import (
	"context"
	"database/sql"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Open returns a new, empty database in which the statements of schema ran.
func Open(ctx context.Context, schema string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	if _, err := db.ExecContext(ctx, schema); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}
