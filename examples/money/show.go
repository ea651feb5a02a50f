// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/database"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	schema = `CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0);
INSERT INTO accounts (id, balance) VALUES ('a', 100), ('b', 100), ('c', 100)`
	tellers   = 4
	transfers = 25 // of each teller
)

// show lets tellers work, and then one that is late.
func show(ctx context.Context, url string) error {
	db, err := database.Open(ctx, schema)
	if err != nil {
		return err
	}
	defer db.Close()

	var done, refused atomic.Int64
	all, allCtx := errgroup.WithContext(ctx)
	for range tellers {
		all.Go(func() error {
			session, err := signalbox.Dial(allCtx, url, signalbox.WithPrefix("shop:"))
			if err != nil {
				return err
			}
			defer session.Close(context.WithoutCancel(allCtx))
			for range transfers {
				accounts := rand.Perm(3)
				from, to := string(rune('a'+accounts[0])), string(rune('a'+accounts[1]))
				switch err := transfer(allCtx, session, db, from, to, 1+rand.Int64N(80)); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, errFunds):
					refused.Add(1)
				default:
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d tellers made %d transfers\n", tellers, done.Load()+refused.Load())
	if err := showBalances(ctx, db); err != nil {
		return err
	}
	return showLateTeller(ctx, url, db)
}

// showBalances prints the sum of the accounts, which no transfer changes.
func showBalances(ctx context.Context, db *sql.DB) error {
	var sum, least int64
	err := db.QueryRowContext(ctx, `SELECT SUM(balance), MIN(balance) FROM accounts`).Scan(&sum, &least)
	if err == nil && least < 0 {
		err = fmt.Errorf("an account has %d", least)
	}
	fmt.Printf("the accounts have %d together\n", sum)
	return err
}

// showLateTeller books for a lease that has ended, after another teller has booked on one of the accounts.
func showLateTeller(ctx context.Context, url string, db *sql.DB) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	short := signalbox.WithFixedLease(200 * time.Millisecond)
	lease, err := multilock.New(reentrant.New(session, "account/a", short), reentrant.New(session, "account/b", short)).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock() // it is lost by then
	tokens := multilock.Tokens(lease)
	<-lease.Done() // it is paused
	if err := transfer(ctx, session, db, "b", "c", 0); err != nil {
		return err
	}
	err = book(ctx, db, posting{"a", -1, tokens[0]}, posting{"b", 1, tokens[1]})
	if !errors.Is(err, errStale) {
		return fmt.Errorf("the late teller should be refused: %w", err)
	}
	fmt.Println("a late teller is refused:", errStale)
	return showBalances(ctx, db)
}
