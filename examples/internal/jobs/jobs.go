// SPDX-License-Identifier: Apache-2.0

// Package jobs has what the programs about job runners share: the jobs of some tenants, and a record of how they ran.
package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// Workers and Tenants are how many there are, and Jobs is the number of jobs of each tenant.
	Workers, Tenants, Jobs = 2, 3, 30

	length = 50 * time.Millisecond
)

// Compare has the same jobs done in each way, and prints what each took. spent is what a job that is given back may cost.
func Compare(perTenant int, spent string, ways []string, run func(way string) (*Record, error)) error {
	fmt.Printf("%d tenants, %d jobs of %v each; %d workers, at most %d jobs of a tenant at once\n", Tenants, Jobs, length, Workers, perTenant)
	for _, way := range ways {
		r, err := run(way)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		fmt.Printf("%s: %.1f s, %.1f starts a job, at most %d at once, %d %s spent\n", way, r.took.Seconds(),
			float64(r.Starts)/(Tenants*Jobs), r.Most, r.Retries, spent)
	}
	return nil
}

// Record is how jobs ran. Its fields are read when they have.
type Record struct {
	Most    int // the jobs of a tenant that ran at once, at most
	Starts  int // the starts of jobs, those that gave the job back among them
	Retries int // the starts that were retries

	mu   sync.Mutex     // guards the fields above and now; jobs of all workers use it
	now  map[string]int // how many jobs of a tenant run
	left chan struct{}  // has a value for each job that is done

	began time.Time
	took  time.Duration
}

// NewRecord returns a record that begins now.
func NewRecord() *Record {
	return &Record{now: make(map[string]int), left: make(chan struct{}, Tenants*Jobs), began: time.Now()}
}

// Start counts a start of a job.
func (r *Record) Start(isRetry bool) { //nolint:revive // a fact, not a switch
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Starts++
	if isRetry {
		r.Retries++
	}
}

// Do is the job.
func (r *Record) Do(ctx context.Context, tenant string) error {
	change := func(by int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now[tenant] += by
		r.Most = max(r.Most, r.now[tenant])
	}
	change(1)
	defer change(-1)
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.left <- struct{}{}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait returns when all jobs are done.
func (r *Record) Wait(ctx context.Context) error {
	for range Tenants * Jobs {
		select {
		case <-r.left:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.took = time.Since(r.began)
	return nil
}
