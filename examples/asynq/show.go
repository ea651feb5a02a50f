// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/jobs"
)

// show has the same jobs done under both limits, and prints what each took.
func show(ctx context.Context, url string) error {
	return jobs.Compare(perTenant, "retries", []string{"signalbox", "asynq/x/rate"}, func(way string) (*jobs.Record, error) {
		return run(ctx, url, way)
	})
}

// count counts each time that asynq starts a job.
func count(seen *jobs.Record) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			retried, _ := asynq.GetRetryCount(ctx)
			seen.Start(retried > 0)
			return next.ProcessTask(ctx, task)
		})
	}
}

// run does all jobs one way.
func run(ctx context.Context, url, way string) (*jobs.Record, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	queue := asynq.NewClientFromRedisClient(client)
	for i := range jobs.Tenants * jobs.Jobs {
		if _, err := queue.EnqueueContext(ctx, asynq.NewTask("send", []byte(strconv.Itoa(i%jobs.Tenants)))); err != nil {
			return nil, err
		}
	}
	seen := jobs.NewRecord()
	for range jobs.Workers {
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
		mux.Use(count(seen), middleware)
		mux.HandleFunc("send", func(ctx context.Context, task *asynq.Task) error { return seen.Do(ctx, string(task.Payload())) })
		if err := server.Start(mux); err != nil {
			return nil, err
		}
		defer server.Shutdown()
	}
	return seen, seen.Wait(ctx)
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
