// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/jobs"
)

// postgresVariable names the database. The program makes river's tables in it.
const postgresVariable = "SIGNALBOX_POSTGRES"

// show has the same jobs done under both limits, and prints what each took.
func show(ctx context.Context, url string) error {
	database := os.Getenv(postgresVariable)
	if database == "" {
		return errors.New("name a database of Postgres by " + postgresVariable + "=postgres://user@host/database")
	}
	return jobs.Compare(perTenant, "attempts", []string{"signalbox", "a queue for each tenant"}, func(way string) (*jobs.Record, error) {
		return run(ctx, url, database, way)
	})
}

// counted is a worker whose starts are counted.
type counted struct {
	river.WorkerDefaults[send]
	seen *jobs.Record
	next func(ctx context.Context, job *river.Job[send]) error
}

func (w *counted) Work(ctx context.Context, job *river.Job[send]) error {
	w.seen.Start(job.Attempt > 1)
	return w.next(ctx, job)
}

// run does all jobs one way.
//
//nolint:revive // a scene, from top to bottom
func run(ctx context.Context, url, database, way string) (*jobs.Record, error) {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}

	// In river without Pro a limit is a number of jobs of one queue in one process.
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}
	queue := func(string) string { return river.QueueDefault }
	if way != "signalbox" {
		queues = make(map[string]river.QueueConfig)
		queue = func(tenant string) string { return "tenant-" + tenant }
		for i := range jobs.Tenants {
			queues[queue(strconv.Itoa(i))] = river.QueueConfig{MaxWorkers: perTenant}
		}
	}
	seen := jobs.NewRecord()
	var client *river.Client[pgx.Tx]
	for i := range jobs.Workers {
		session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("jobs:"))
		if err != nil {
			return nil, err
		}
		defer session.Close(context.WithoutCancel(ctx))
		w := &sender{session: session, send: func(ctx context.Context, job send) error { return seen.Do(ctx, job.Tenant) }}
		next := w.Work
		if way != "signalbox" {
			next = func(ctx context.Context, job *river.Job[send]) error { return seen.Do(ctx, job.Args.Tenant) }
		}
		all := river.NewWorkers()
		river.AddWorker(all, &counted{seen: seen, next: next})
		client, err = river.NewClient(driver, &river.Config{
			ID: "worker-" + strconv.Itoa(i), Workers: all, Queues: queues, Logger: slog.New(slog.DiscardHandler),
			FetchPollInterval: 100 * time.Millisecond, // by default 1 s; a job that was woken is found by a poll
		})
		if err != nil {
			return nil, err
		}
		if way == "signalbox" {
			snoozed, stop := client.Subscribe(river.EventKindJobSnoozed)
			defer stop()
			go w.recheck(ctx, client, snoozed)
		}
		if err := client.Start(ctx); err != nil {
			return nil, err
		}
		defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }()
	}
	for i := range jobs.Tenants * jobs.Jobs {
		tenant := strconv.Itoa(i % jobs.Tenants)
		if _, err := client.Insert(ctx, send{tenant}, &river.InsertOpts{Queue: queue(tenant)}); err != nil {
			return nil, err
		}
	}
	return seen, seen.Wait(ctx)
}
