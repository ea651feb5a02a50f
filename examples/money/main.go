// SPDX-License-Identifier: Apache-2.0

// Command money moves money between accounts. Four tellers do it at the same time, in all directions. Each transfer
// locks both accounts, checks the balance, and books both sides in one transaction, which a later holder of either
// account makes fail.
package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

var (
	errFunds = errors.New("not enough money")
	errStale = errors.New("a later holder has booked")
)

func main() { demo.Main(show) }

// transfer moves an amount between two accounts.
func transfer(ctx context.Context, session *signalbox.Session, db *sql.DB, from, to string, amount int64) error {
	// In whatever order the accounts are named: no two transfers wait for each other in a circle.
	both := multilock.New(reentrant.New(session, "account/"+from), reentrant.New(session, "account/"+to))
	return both.Do(ctx, func(ctx context.Context, lease signalbox.Lease) error {
		var balance int64
		err := db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = ?`, from).Scan(&balance)
		switch {
		case err != nil:
			return err
		case balance < amount:
			return errFunds
		}
		// A question to another service would stand here. No transaction is open meanwhile.
		tokens := multilock.Tokens(lease) // in the order in which New was given the locks
		return book(ctx, db, posting{from, -amount, tokens[0]}, posting{to, amount, tokens[1]})
	})
}

// posting changes the balance of an account for the holder of its lock.
type posting struct {
	account string
	amount  int64
	token   uint64
}

// book makes all postings or none. It refuses them if a later holder has booked on one of the accounts.
func book(ctx context.Context, db *sql.DB, postings ...posting) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after the commit
	for _, p := range postings {
		result, err := tx.ExecContext(ctx,
			`UPDATE accounts SET balance = balance + ?, token = ? WHERE id = ? AND token <= ?`,
			p.amount, p.token, p.account, p.token)
		if err != nil {
			return err
		}
		if rows, err := result.RowsAffected(); err != nil || rows == 0 {
			return errors.Join(errStale, err)
		}
	}
	return tx.Commit()
}
