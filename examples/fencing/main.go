// SPDX-License-Identifier: Apache-2.0

// Command fencing shows an SQL database that refuses late writers. A writer is paused after the last check of its
// lease, and another one writes meanwhile. When the first one continues, its UPDATE changes no row, because its
// fencing token is smaller.
package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

// schema has a column for the token of the last writer of each row. A bigint in other databases.
const schema = `CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, token INTEGER NOT NULL DEFAULT 0);
INSERT INTO orders (id, state) VALUES ('42', 'new')`

// errStale says that a later holder of the lock has written, or that there is no such row.
var errStale = errors.New("a later holder has written")

func main() { demo.Main(show) }

// setState writes the state of an order, unless a writer with a greater token was there before. A holder may
// write several times.
func setState(ctx context.Context, db *sql.DB, order, state string, token uint64) error {
	result, err := db.ExecContext(ctx,
		`UPDATE orders SET state = ?, token = ? WHERE id = ? AND token <= ?`, state, token, order, token)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		err = errStale
	}
	return err
}

// advance changes the state of an order to what next makes of it. Other processes do the same.
func advance(ctx context.Context, session *signalbox.Session, db *sql.DB, order string, next func(state string) string) error {
	lease, err := reentrant.New(session, "order/"+order).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock()
	work := lease.Bind(ctx) // ends when the lease can no longer be trusted

	state, err := stateOf(work, db, order)
	if err != nil {
		return err
	}
	// However long this process is paused here, it overwrites nothing of a later holder.
	return setState(work, db, order, next(state), lease.Token())
}

func stateOf(ctx context.Context, db *sql.DB, order string) (state string, err error) {
	err = db.QueryRowContext(ctx, `SELECT state FROM orders WHERE id = ?`, order).Scan(&state)
	return state, err
}
