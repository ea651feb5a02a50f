// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox/examples/internal/database"
)

const schema = `CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL, token INTEGER NOT NULL DEFAULT 0);
INSERT INTO orders (id, state) VALUES (42, 'new')`

// show pays the order, and again after a later holder has written.
func show(ctx context.Context, url string) error {
	db, err := database.Open(ctx, schema)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, later := range []string{
		`SELECT 1`,
		`UPDATE orders SET state = 'refunded', token = 9223372036854775807`, // the greatest token of all
	} {
		if _, err := db.ExecContext(ctx, later); err != nil {
			return err
		}
		if err := pay(ctx, url, db); err != nil {
			return err
		}
		var state string
		if err := db.QueryRowContext(ctx, `SELECT state FROM orders`).Scan(&state); err != nil {
			return err
		}
		fmt.Println("the order is", state)
	}
	return nil
}
