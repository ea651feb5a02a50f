// SPDX-License-Identifier: Apache-2.0

// Command basic changes a row of a database under a lock. The README shows it.
package main

import (
	"context"
	"database/sql"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(show) }

// pay pays order 42, unless a later holder of its lock has written.
func pay(ctx context.Context, url string, db *sql.DB) error {
	session, err := signalbox.Dial(ctx, url) // once in a process: redis://127.0.0.1:6379
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx)) // ctx may have ended by then

	lease, err := reentrant.New(session, "order/42").Lock(ctx) // waits in the queue until ctx ends
	if err != nil {
		return err // errors.Is(err, signalbox.ErrHeld): ctx ended while another holder had it
	}
	defer lease.Unlock()

	// Bind's context is cancelled if the lease is lost. The column token is bigint NOT NULL DEFAULT 0. If a later holder
	// has written, it has a greater token, and this changes no row: check RowsAffected.
	_, err = db.ExecContext(lease.Bind(ctx),
		"UPDATE orders SET state = 'paid', token = $1 WHERE id = 42 AND token <= $1", lease.Token())
	return err
}
