// SPDX-License-Identifier: Apache-2.0

// Command asynq runs jobs of many tenants by asynq, at most two of a tenant at once over all workers. A job that finds
// its tenant busy goes back without a retry spent, and a job that ends wakes as many as can run.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	perTenant = 2
	again     = 10 * time.Second // after this time a parked job runs by itself, if no other woke it
)

var errBusy = errors.New("no permit of the tenant")

func main() { demo.Main(show) }

// config has asynq spend no retry on errBusy.
func config(c asynq.Config) asynq.Config {
	c.IsFailure = func(err error) bool { return err != nil && !errors.Is(err, errBusy) }
	c.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if errors.Is(err, errBusy) {
			return again
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	return c
}

// limits is the middleware of a worker.
type limits struct {
	session   *signalbox.Session
	client    *redis.Client
	inspector *asynq.Inspector
}

func (l *limits) handle(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		tenant := string(task.Payload()) // or a field of it
		limit := semaphore.New(l.session, "tenant/"+tenant, perTenant)
		id, _ := asynq.GetTaskID(ctx)
		lease, err := limit.TryAcquire(ctx, 1)
		if errors.Is(err, signalbox.ErrHeld) { // park it, then try once more: the last holder may just have left
			l.client.ZAddNX(ctx, "parked:"+tenant, redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
			lease, err = limit.TryAcquire(ctx, 1)
		}
		if err != nil {
			return errors.Join(errBusy, err) // an outage spends no retry either
		}
		defer l.wake(context.WithoutCancel(ctx), tenant, limit)
		defer lease.Unlock()
		l.client.ZRem(ctx, "parked:"+tenant, id)
		return next.ProcessTask(lease.Bind(ctx), task)
	})
}

// wake runs those that are parked longest, as many as there are free permits. A job is parked until it has a permit.
func (l *limits) wake(ctx context.Context, tenant string, limit *semaphore.Semaphore) {
	free, err := limit.Available(ctx)
	if err != nil || free == 0 {
		return
	}
	for _, id := range l.client.ZRange(ctx, "parked:"+tenant, 0, int64(free-1)).Val() {
		if errors.Is(l.inspector.RunTask("default", id), asynq.ErrTaskNotFound) {
			l.client.ZRem(ctx, "parked:"+tenant, id)
		} // any other error: it was woken already, or goes back just now
	}
}
