// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Run is a member of the group until ctx ends. It calls work for each shard that this member owns, each in a goroutine of
// its own. When work returns while the shard is still owned:
//
//   - after nil, or an error, it is called again, after a pause that grows with errors (Retry). The shard stays;
//   - after Elsewhere the shard is released, and goes to another member;
//   - after Finished the name leaves the set;
//   - after a panic the shard is released like after Elsewhere, and then the panic continues.
//
// The context of work ends when ctx ends, when the shard is to move, and a third of the lease before the ownership can end
// at the server. context.Cause says which: ctx's cause, ErrMoved, ErrRemoved, ErrResized, or signalbox.ErrLost. work must
// return then. The shard is released when work has returned, and not before.
//
// A member whose lease is lost joins again. No function of a shard starts here while the last one of it still runs.
//
// When ctx ends every shard is given away. Run returns ctx's error when all functions have returned and all shards are
// released, joined with ErrUnconfirmed if the server confirms none of the releases that are left for a second. Before that it
// returns an error of Join, or ErrClosed. Errors of work are logged.
func (g *Group) Run(ctx context.Context, work func(ctx context.Context, s Shard) error) error {
	return g.root().Explain("run", g.run(ctx, work))
}

func (g *Group) run(ctx context.Context, work func(context.Context, Shard) error) error {
	if err := g.root().Ready(ctx); err != nil || work == nil {
		return cmp.Or(err, acquire.ErrNoFunc)
	}
	m, err := g.join(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { m.leave(errs.Ended(ctx)) })
	defer stop()
	var functions sync.WaitGroup
	for c := range m.Changes() {
		if c.Kind == Granted {
			functions.Go(func() { c.Shard.grant.serve(ctx, work) })
		}
	}
	functions.Wait()
	unconfirmed := m.awaitLeft()
	if ctx.Err() != nil {
		return errs.Join(errs.Ended(ctx), unconfirmed)
	}
	return errs.Join(m.Err(), unconfirmed)
}

// awaitLeft waits until the server has confirmed that the member is gone, whose shards are all released. It is patient after
// each confirmation: those of many shards take many requests.
func (m *Member) awaitLeft() error {
	base := &m.group.base
	var late error
	for isLate := false; ; {
		m.mu.Lock()
		isOver, changed := m.mu.over, m.mu.changed
		m.mu.Unlock()
		switch {
		case isOver:
			return nil
		case isLate:
			return base.Unconfirmed(timers.Now().Add(base.Terms.Lease), late)
		}
		wait := base.Session.Patient(base.Session.UnlockPatience)
		select {
		case <-changed:
		case <-m.done:
		case <-wait.Done():
			isLate = true
		case <-m.group.registry.Context().Done(): // after which no timer fires
			isLate = true
		}
		late = wait.Err()
		wait.End()
	}
}

// serve calls work for a shard until that is not owned any more, or work gives it away. It runs on a goroutine of its own,
// and releases the shard in every case: also if work panics, or ends its goroutine.
func (g *grant) serve(ctx context.Context, work func(context.Context, Shard) error) {
	how, returned := release{elsewhere: DefaultElsewhere}, false
	defer func() {
		_ = g.release(how)
		if !returned {
			g.membership.awaitReleases() // the process is about to end
		}
	}()
	base := &g.membership.member.group.base
	bound := g.bonds.Bind(ctx, g.root, g.err)
	for fails := 0; bound.Err() == nil; {
		err := work(bound, Shard{g})
		var away *elsewhereError
		switch {
		case err == nil:
			fails = 0
		case errors.As(err, &away):
			base.LogFailed(err)
			how.elsewhere, returned = away.pause, true
			return
		case errors.Is(err, Finished) && g.index < 0:
			how, returned = release{finished: true}, true
			return
		case bound.Err() == nil:
			base.LogFailed(err)
			fails++
		}
		base.Session.Sleep(bound, g.membership.member.group.retryPause(fails), nil)
	}
	how, returned = release{}, true
}

// retryPause returns how long to wait after so many errors in a row.
func (g *Group) retryPause(fails int) time.Duration {
	pause := g.options.RetryMin
	for range fails - 1 {
		if pause *= 2; pause >= g.options.RetryMax {
			return g.options.RetryMax
		}
	}
	return pause
}

// awaitReleases waits until the server has confirmed all releases of the membership, for a second at most.
func (ms *membership) awaitReleases() {
	m := ms.member
	base := &m.group.base
	wait := base.Session.Patient(base.Session.UnlockPatience)
	defer wait.End()
	for {
		m.mu.Lock()
		isDone, changed := len(ms.releases) == 0, m.mu.changed
		m.mu.Unlock()
		if isDone {
			return
		}
		select {
		case <-changed:
		case <-wait.Done():
			return
		case <-m.group.registry.Context().Done():
			return
		}
	}
}
