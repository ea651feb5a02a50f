// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/signalbox-go/signalbox"
)

// postgresVariable names the database. The program makes river's tables in it.
const postgresVariable = "SIGNALBOX_POSTGRES"

const (
	workers = 2
	tenants = 3
	jobs    = 30 // of each tenant
	work    = 50 * time.Millisecond
)

// show has the same jobs done under both limits, and prints what each took.
func show(ctx context.Context, url string) error {
	database := os.Getenv(postgresVariable)
	if database == "" {
		return errors.New("name a database of Postgres by " + postgresVariable + "=postgres://user@host/database")
	}
	fmt.Printf("%d tenants, %d jobs of %v each; %d workers, at most %d jobs of a tenant at once\n", tenants, jobs, work, workers, perTenant)
	for _, way := range []string{"signalbox", "a queue for each tenant"} {
		seen, err := run(ctx, url, database, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		fmt.Printf("%s: %.1f s, %.1f starts a job, at most %d at once, %d attempts spent\n", way, seen.took.Seconds(),
			float64(seen.starts)/(tenants*jobs), seen.most, seen.retries)
	}
	return nil
}

// record is what a run saw.
type record struct {
	mu      sync.Mutex     // guards what follows; jobs of all workers use it
	now     map[string]int // how many jobs of a tenant run
	most    int
	starts  int // calls of Work, those that snoozed the job among them
	retries int
	took    time.Duration
	left    chan struct{} // has a value for each job that is done
}

// work is the job.
func (r *record) work(ctx context.Context, job send) error {
	change := func(by int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now[job.Tenant] += by
		r.most = max(r.most, r.now[job.Tenant])
	}
	change(1)
	defer change(-1)
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.left <- struct{}{}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// counted is a worker whose starts are counted.
type counted struct {
	river.WorkerDefaults[send]
	seen *record
	next func(ctx context.Context, job *river.Job[send]) error
}

func (w *counted) Work(ctx context.Context, job *river.Job[send]) error {
	w.seen.mu.Lock()
	w.seen.starts++
	if job.Attempt > 1 {
		w.seen.retries++
	}
	w.seen.mu.Unlock()
	return w.next(ctx, job)
}

// run does all jobs one way.
//
//nolint:revive // a scene, from top to bottom
func run(ctx context.Context, url, database, way string) (*record, error) {
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
		for i := range tenants {
			queues[queue(strconv.Itoa(i))] = river.QueueConfig{MaxWorkers: perTenant}
		}
	}
	seen := &record{now: make(map[string]int), left: make(chan struct{}, tenants*jobs)}
	var client *river.Client[pgx.Tx]
	start := time.Now()
	for i := range workers {
		session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("jobs:"))
		if err != nil {
			return nil, err
		}
		defer session.Close(context.WithoutCancel(ctx))
		w := &sender{session: session, send: seen.work}
		next := w.Work
		if way != "signalbox" {
			next = func(ctx context.Context, job *river.Job[send]) error { return seen.work(ctx, job.Args) }
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
	for i := range tenants * jobs {
		tenant := strconv.Itoa(i % tenants)
		if _, err := client.Insert(ctx, send{tenant}, &river.InsertOpts{Queue: queue(tenant)}); err != nil {
			return nil, err
		}
	}
	for range tenants * jobs {
		select {
		case <-seen.left:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	seen.took = time.Since(start)
	return seen, nil
}
