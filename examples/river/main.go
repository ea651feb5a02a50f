// SPDX-License-Identifier: Apache-2.0

// Command river runs jobs of many tenants by river, at most two of a tenant at once over all workers. A job that finds
// its tenant busy is snoozed, without an attempt spent, and a job that ends wakes as many as can run.
package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	perTenant = 2
	again     = 10 * time.Second // after this time a snoozed job runs by itself, if no other woke it
)

func main() { demo.Main(show) }

type send struct {
	Tenant string `json:"tenant"`
}

func (send) Kind() string { return "send" }

// sender is the worker of a process.
type sender struct {
	river.WorkerDefaults[send]
	session *signalbox.Session
	send    func(ctx context.Context, job send) error
}

func (w *sender) Work(ctx context.Context, job *river.Job[send]) error {
	limit := w.limit(job.Args.Tenant)
	lease, err := limit.TryAcquire(ctx, 1)
	if err != nil { // ErrHeld, or an outage: neither spends an attempt
		return river.JobSnooze(again)
	}
	defer w.wake(context.WithoutCancel(ctx), river.ClientFromContext[pgx.Tx](ctx), job.Args.Tenant)
	defer lease.Unlock()
	return w.send(lease.Bind(ctx), job.Args)
}

func (w *sender) limit(tenant string) *semaphore.Semaphore {
	return semaphore.New(w.session, "tenant/"+tenant, perTenant)
}

// wake runs those that are snoozed, the oldest first, as many as there are free permits. After an error they run when
// the snooze is over.
func (w *sender) wake(ctx context.Context, client *river.Client[pgx.Tx], tenant string) {
	free, err := w.limit(tenant).Available(ctx)
	if err != nil || free == 0 {
		return
	}
	snoozed, err := client.JobList(ctx, river.NewJobListParams().Kinds(send{}.Kind()).States(rivertype.JobStateScheduled).
		Where("args->>'tenant' = @tenant", river.NamedArgs{"tenant": tenant}).First(free))
	for i := 0; err == nil && i < len(snoozed.Jobs); i++ {
		_, err = client.JobRetry(ctx, snoozed.Jobs[i].ID)
	}
}

// recheck wakes jobs that were snoozed too late for the holders: river writes a snooze some time after Work returned. It
// ends with the subscription to EventKindJobSnoozed.
func (w *sender) recheck(ctx context.Context, client *river.Client[pgx.Tx], snoozed <-chan *river.Event) {
	for event := range snoozed {
		var args send
		if json.Unmarshal(event.Job.EncodedArgs, &args) == nil {
			w.wake(ctx, client, args.Tenant)
		}
	}
}
