// SPDX-License-Identifier: Apache-2.0

// Command partitions is a queue of 64 partitions and three consumers. Each partition has one consumer at a time, and
// the consumers have as many as each other. The store refuses a consumer that is late.
package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/shards"
)

const partitions = 64

// schema has a row for each partition: the position of the next message, and the token of the last writer.
const schema = `CREATE TABLE partitions (id INTEGER PRIMARY KEY, position INTEGER NOT NULL, token INTEGER NOT NULL)`

// errStale says that a later owner of the partition has written.
var errStale = errors.New("a later owner has written")

func main() { demo.Main(show) }

// source returns the message at a position of a partition when it is there, or false if ctx ends.
type source func(ctx context.Context, partition int, position int64) (message, bool)

// consume works on the partitions that this process owns, until ctx ends.
func consume(ctx context.Context, session *signalbox.Session, db *sql.DB, next source) error {
	group := shards.New(session, "orders", shards.Count(partitions))
	return group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		position, err := claim(ctx, db, s.Index(), s.Token())
		for err == nil && ctx.Err() == nil { // the partition moves, the lease is about to end, or the process is
			if message, ok := next(ctx, s.Index(), position); ok {
				position, err = handle(ctx, db, s, message)
			}
		}
		return err // Run calls the function again, after a pause, if the partition is still owned
	})
}

// claim writes the token of a new owner, and returns the position where the last owner stopped. From here on the store
// refuses all earlier owners.
func claim(ctx context.Context, db *sql.DB, partition int, token uint64) (position int64, err error) {
	err = db.QueryRowContext(ctx, `INSERT INTO partitions (id, position, token) VALUES (?, 0, ?)
		ON CONFLICT (id) DO UPDATE SET token = excluded.token WHERE partitions.token <= excluded.token
		RETURNING position`, partition, token).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		err = errStale
	}
	return position, err
}

// handle does what a message asks for, and returns the next position. What the message changes belongs into the same
// transaction as the position: then a message counts once, whichever consumers there were.
func handle(ctx context.Context, db *sql.DB, s shards.Shard, m message) (next int64, err error) {
	next = m.position + 1
	return next, setPosition(ctx, db, s.Index(), next, s.Token())
}

// setPosition writes the position of a partition, unless a later owner has written.
func setPosition(ctx context.Context, db *sql.DB, partition int, position int64, token uint64) error {
	result, err := db.ExecContext(ctx,
		`UPDATE partitions SET position = ?, token = ? WHERE id = ? AND token <= ?`, position, token, partition, token)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		err = errStale
	}
	return err
}
