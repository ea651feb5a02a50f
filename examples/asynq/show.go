// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/signalbox-go/signalbox"
)

const (
	workers = 2
	tenants = 3
	jobs    = 30 // of each tenant
	work    = 50 * time.Millisecond
)

// show has the same jobs done under both limits, and prints what each took.
func show(ctx context.Context, url string) error {
	fmt.Printf("%d tenants, %d jobs of %v each; %d workers, at most %d jobs of a tenant at once\n", tenants, jobs, work, workers, perTenant)
	for _, way := range []string{"signalbox", "asynq/x/rate"} {
		seen, err := run(ctx, url, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		fmt.Printf("%s: %.1f s, %.1f starts a job, at most %d at once, %d retries spent\n", way, seen.took.Seconds(),
			float64(seen.starts)/(tenants*jobs), seen.most, seen.retries)
	}
	return nil
}

// record is what a run saw.
type record struct {
	mu      sync.Mutex     // guards what follows; handlers of all workers use it
	now     map[string]int // how many jobs of a tenant run
	most    int
	starts  int // calls of a handler, those that gave the job back among them
	retries int
	took    time.Duration
	left    chan struct{} // has a value for each job that is done
}

// count counts each time that asynq starts a job.
func (r *record) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		r.mu.Lock()
		r.starts++
		if retried, _ := asynq.GetRetryCount(ctx); retried > 0 {
			r.retries++
		}
		r.mu.Unlock()
		return next.ProcessTask(ctx, task)
	})
}

// work is the job.
func (r *record) work(ctx context.Context, task *asynq.Task) error {
	change := func(by int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now[string(task.Payload())] += by
		r.most = max(r.most, r.now[string(task.Payload())])
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

// run does all jobs one way.
func run(ctx context.Context, url, way string) (*record, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	seen := &record{now: make(map[string]int), left: make(chan struct{}, tenants*jobs)}
	queue := asynq.NewClientFromRedisClient(client)
	for i := range tenants * jobs {
		if _, err := queue.EnqueueContext(ctx, asynq.NewTask("send", []byte(strconv.Itoa(i%tenants)))); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	for range workers {
		session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("jobs:"))
		if err != nil {
			return nil, err
		}
		defer session.Close(context.WithoutCancel(ctx))
		c := config(asynq.Config{
			Concurrency: 10, LogLevel: asynq.FatalLevel,
			TaskCheckInterval:        100 * time.Millisecond, // an idle worker polls for jobs, by default every second
			DelayedTaskCheckInterval: time.Second,            // by default 5 s; for the other way, which wakes no job
		})
		middleware := (&limits{session, client, asynq.NewInspectorFromRedisClient(client)}).handle
		if way != "signalbox" {
			c.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Second + rand.N(time.Second) }
			middleware = rate{client}.handle
		}
		server := asynq.NewServerFromRedisClient(client, c)
		mux := asynq.NewServeMux()
		mux.Use(seen.count, middleware)
		mux.HandleFunc("send", seen.work)
		if err := server.Start(mux); err != nil {
			return nil, err
		}
		defer server.Shutdown()
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

// rate is the limit that asynq has in its module x: Semaphore of package x/rate, by its rule. The module has no release that
// fits this asynq. A member's score is the deadline of the job: the permit of a worker that died is free then, and not before.
type rate struct{ client *redis.Client }

//nolint:gochecknoglobals // a script
var acquire = redis.NewScript(`
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", tonumber(ARGV[2])-1)
if redis.call("ZCARD", KEYS[1]) < tonumber(ARGV[1]) then
	redis.call("ZADD", KEYS[1], ARGV[3], ARGV[4])
	return 1
end
return 0`)

func (r rate) handle(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		key := "asynq:sema:" + string(task.Payload())
		id, _ := asynq.GetTaskID(ctx)
		deadline, limited := ctx.Deadline()
		if !limited {
			return errors.New("asynq/x/rate needs a deadline")
		}
		ok, err := acquire.Run(ctx, r.client, []string{key}, perTenant, time.Now().Unix(), deadline.Unix(), id).Bool()
		if err != nil {
			return err
		}
		if !ok {
			return errBusy
		}
		defer func() {
			if err := r.client.ZRem(context.WithoutCancel(ctx), key, id).Err(); err != nil {
				slog.Warn("a permit stays until its deadline", "err", err)
			}
		}()
		return next.ProcessTask(ctx, task)
	})
}
