// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// silence is how long the server may be silent before observers get the error.
const silence = DefaultLease

// Watch yields the group, and then each change of it, until ctx ends. The first element describes a moment after the loop
// began. Changes that follow each other within a poll are one element.
//
// An observer polls once a second, and after messages for members of its session. All observers of a session share the
// polls, which return what has changed.
//
// An error says that the group is not known. If waiting can help, the sequence continues: ErrNotHeld says that there is no such
// group yet, and after 15 s without a reply of the server it yields one error that says so. Otherwise the error is the last
// element: the context's, ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, or the server's own words.
func (g *Group) Watch(ctx context.Context) iter.Seq2[*View, error] {
	return func(yield func(*View, error) bool) {
		if err := g.watch(ctx, yield); err != nil {
			yield(nil, g.root().Explain("watch", err))
		}
	}
}

// watch yields all elements but the last, and returns the error of that, or nil if the caller wants no more.
func (g *Group) watch(ctx context.Context, yield func(*View, error) bool) error {
	if err := g.root().Await(ctx); err != nil {
		return err
	}
	g.base.Session.HandshakeInCluster(ctx, g.keys[0])
	w, from, err := g.registry.join(g)
	if err != nil {
		return err
	}
	defer w.subject.Leave()
	return w.latest.Observe(ctx, &w.subject, from, func(view *View, err error) bool {
		return yield(view, g.base.Explain("watch", err))
	})
}

// join adds an observer, and returns the number of the first poll that is sent after this call.
func (r *shardRegistry) join(g *Group) (w *watchedGroup, from uint64, err error) {
	channel := notify.Channel{Name: g.news + g.base.Session.ID(), Types: notify.ShardedChannel}
	w, err = notify.Join(&r.Registry, g.keys[0], channel, func() *watchedGroup {
		return &watchedGroup{group: g, table: newTable(), latest: notify.NewLatest[*View](silence)}
	}, func(w *watchedGroup) (poll bool) {
		from = w.subject.NextPollLocked()
		return true
	})
	return w, from, err
}

// watchedGroup is one group that goroutines of this session observe. The lock of its registry guards the fields from table on.
type watchedGroup struct {
	subject notify.Subject
	group   *Group // the first that was observed; others of that name are alike

	table   *table
	latest  notify.Latest[*View]
	applied uint64 // the number of the last poll whose reply is in the table
}

// Subject implements notify.Watched.
func (w *watchedGroup) Subject() *notify.Subject { return &w.subject }

// AppendPoll implements notify.Watched.
func (w *watchedGroup) AppendPoll(calls []wire.Call) []wire.Call {
	if w.latest.IsFinalLocked() {
		return calls
	}
	return append(calls, w.group.viewCall(w.table, ""))
}

// OnReply implements notify.Watched. A reply says what has changed since the version that its poll knew. If the reply to a later poll
// was handled before, that said it all.
func (w *watchedGroup) OnReply(p notify.Poll, replies []wire.Outcome) (again bool, err error) {
	if err := replies[0].Err; err != nil {
		return false, err
	}
	if p.Number <= w.applied {
		return false, nil
	}
	reply := &replies[0].Reply
	if err := w.group.observe(proto.ReadShardsHead(reply)); err != nil {
		return false, err
	}
	more, err := w.table.apply(reply)
	w.latest.ReplyLocked(p)
	w.applied = p.Number
	switch {
	case err != nil && reply.Code() == wire.NotDone:
		w.latest.ShowLocked(p, nil, err) // it may come
		return false, nil
	case err != nil:
		return false, err
	case more:
		return true, nil
	}
	view := w.latest.ValueLocked()
	if view == nil || w.table.changed {
		view = w.table.view()
	}
	w.latest.ShowLocked(p, view, nil)
	return false, nil
}

// OnFailure implements notify.Watched.
func (w *watchedGroup) OnFailure(p notify.Poll, f notify.Failure) { w.latest.FailLocked(p, f) }

// OnMessage implements notify.Watched. A message is a hint: the server is asked.
func (*watchedGroup) OnMessage(string) (poll bool) { return true }

// OnClose implements notify.Watched.
func (w *watchedGroup) OnClose(err error) { w.latest.CloseLocked(err) }

const (
	// unownedFor is for how much longer than a lease a shard may be without an owner before Health says so.
	unownedFor = 3 * time.Second
	// drainsFor is how long a shard may drain before Health says so.
	drainsFor = time.Minute
	// maxListed is how many shards an error of Health names.
	maxListed = 10
)

// Health asks the server for the group, and returns nil if each shard has an owner, or had one less than a lease and
// 3 s ago, no shard drains for more than a minute, and the server has lost no names. Its error names such shards, the first of each sort. It matches ErrNotHeld
// if there are shards without an owner, and signalbox.ErrHeld if some are not released. It also matches ErrNotHeld while a member of
// this session takes less than its share, since it released shards that it did not take up. Other errors are those of View.
func (g *Group) Health(ctx context.Context) error {
	return g.root().Explain("health", g.health(ctx))
}

func (g *Group) health(ctx context.Context) error {
	v, err := g.view(ctx)
	if err != nil {
		return err
	}
	free, drains, unread := []string(nil), []string(nil), g.unread()
	for _, name := range v.Names() {
		switch o, _ := v.Owner(name); {
		case o.State == Draining && v.since(o.DrainingSince) > drainsFor:
			drains = append(drains, name)
		case (o.State == Unowned || o.State == Waiting) && v.since(o.Since) > g.base.Terms.Lease+unownedFor:
			free = append(free, name)
		}
	}
	var lost error
	if v.missing > 0 {
		lost = fmt.Errorf("%w: the server lost the data of the group, and %d names that had no owner: call Sync with all names", errs.ErrNotHeld, v.missing)
	}
	return errs.Join(lost, listed(errs.ErrNotHeld, "have no owner", free), listed(errs.ErrHeld, "were asked for and are not released", drains),
		listed(errs.ErrNotHeld, "were released by a member of this session, since no goroutine reads its changes", unread))
}

// listed returns the error of these shards, or nil for no shards.
func listed(err error, what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d shards %s: %q", err, len(names), what, names[:min(len(names), maxListed)])
}
