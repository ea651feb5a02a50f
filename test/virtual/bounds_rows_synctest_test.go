// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// boundUse uses a name with options, with and without waiting, and returns the first error.
type boundUse = func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error

// boundUses are the uses of each kind.
var boundUses = map[string]boundUse{
	"reentrant": singleUse(locktest.Reentrant()), "fair": singleUse(locktest.Fair()), "java": singleUse(locktest.Fair()),
	"rwlock": singleUse(locktest.Writer()), "reader": singleUse(locktest.Reader()), "semaphore": singleUse(locktest.Permit()),
	"redlock": lockUse(func(s []*signalbox.Session, name string, o ...signalbox.LockOption) anyLock {
		return redlock.New(s, name, o...)
	}),
	"election": func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error {
		term, err := election.New(s[0], b.name, o...).Campaign(b.limited(time.Minute))
		if err != nil {
			return err
		}
		b.watch()
		return b.returnsWithin(time.Minute, func() error { return unlessLost(term.Resign()) })
	},
	"once": func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error {
		key := once.New(s[0], b.name, o...)
		fast := func(context.Context, signalbox.Lease) ([]byte, error) { return []byte("x"), nil }
		if _, _, err := key.Do(b.limited(time.Minute), fast); err != nil {
			return err
		}
		if err := key.Forget(b.limited(time.Minute)); err != nil {
			return err
		}
		slow := func(ctx context.Context, _ signalbox.Lease) ([]byte, error) { // until a short lease ends, or Linger
			select {
			case <-ctx.Done():
			case <-time.After(2 * boundSpan):
			}
			return nil, errFalse
		}
		_, _, err := key.Do(b.limited(time.Second), slow)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errFalse) {
			err = nil
		}
		b.watch()
		time.Sleep(2 * boundSpan)
		return err
	},
	"shards": func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error {
		return groupUse(b, shards.New(s[0], b.name, shards.Count(3), o...), 1)
	},
	"countdown": func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error {
		latch := countdown.New(s[0], b.name, o...)
		round, err := latch.Start(b.limited(time.Minute), 1)
		if err != nil {
			return err
		}
		waits := make(chan error, 1)
		go func() { waits <- round.Wait(b.limited(time.Minute)) }()
		b.watch()
		if _, err := round.CountDown(b.limited(time.Minute), "id"); err != nil {
			return err
		}
		return <-waits
	},
}

// singleUse returns what uses a lock of a kind, and lockUse what uses any lock.
func singleUse(kind locktest.Primitive) boundUse {
	return lockUse(func(s []*signalbox.Session, name string, o ...signalbox.LockOption) anyLock {
		return kind.New(s[0], name, o...)
	})
}

func lockUse(make func(s []*signalbox.Session, name string, o ...signalbox.LockOption) anyLock) boundUse {
	return func(b *boundTrial, s []*signalbox.Session, o ...signalbox.LockOption) error {
		lock := make(s, b.name, o...)
		for _, waits := range []bool{false, true} {
			if waits {
				holder, err := make(b.other, b.name).Lock(b.limited(time.Minute))
				if err != nil {
					return err
				}
				go func() {
					time.Sleep(time.Second)
					_ = holder.Unlock() // the wait shows whether it did
				}()
			}
			lease, err := lock.Lock(b.limited(time.Minute))
			if err != nil {
				return err
			}
			b.watch()
			if err := b.returnsWithin(time.Minute, func() error { return unlessLost(lease.Unlock()) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// unlessLost returns err, or nil if it says that a lease had ended before, as short ones do.
func unlessLost(err error) error {
	if errors.Is(err, signalbox.ErrLost) || errors.Is(err, signalbox.ErrMaxHold) {
		return nil
	}
	return err
}

// groupUse is a member of a group until it owns so many shards.
func groupUse(b *boundTrial, g *shards.Group, most int) error {
	m, err := g.Join(b.limited(time.Minute))
	if err != nil {
		return err
	}
	go locktest.TakeUp(m)
	for began := time.Now(); m.Owned() < most && time.Since(began) < time.Minute; {
		time.Sleep(time.Second)
	}
	require.GreaterOrEqual(b, m.Owned(), most, b.name)
	b.watch()
	return m.Leave(b.limited(time.Minute))
}

// between is an option that takes durations or counts from least to most.
func between[T ~int | ~int64](least, most T, option func(v T) signalbox.LockOption, kinds ...string) boundRow {
	return boundRow{least: int64(least), most: int64(most), kinds: kinds, option: func(v int64) signalbox.LockOption { return option(T(v)) }}
}

// numberOf is a call that takes values from least to most.
func numberOf[T ~int | ~int64](least, most T, use func(b *boundTrial, v T) error) boundRow {
	return boundRow{least: int64(least), most: int64(most), use: func(b *boundTrial, v int64) error { return use(b, T(v)) }}
}

// anyNumber is a call that takes every value.
func anyNumber[T ~int | ~int64](use func(b *boundTrial, v T) error) boundRow {
	return numberOf(T(math.MinInt64), T(math.MaxInt64), use)
}

// refusedBy returns the row with other errors beyond its bounds.
func refusedBy(r boundRow, refuses func(v int64) error) boundRow {
	r.refuses = refuses
	return r
}

// boundRows are the rows by the name of the argument.
func boundRows() map[string]boundRow {
	const leastLease, day = 100 * time.Millisecond, 24 * time.Hour
	leased := []string{"reentrant", "fair", "rwlock", "reader", "semaphore", "redlock", "once"}
	held := append([]string{"election"}, leased...)
	single := slices.DeleteFunc(slices.Clone(held), func(kind string) bool { return kind == "redlock" })
	renewed := between(leastLease, day, signalbox.WithRenewedLease, append([]string{"shards"}, held...)...)
	renewed.leasts = map[string]int64{"shards": int64(shards.MinLease)}
	rows := map[string]boundRow{
		"signalbox.WithRenewedLease life": renewed,
		"signalbox.WithFixedLease life":   between(leastLease, day, signalbox.WithFixedLease, leased...),
		"signalbox.WithFirstLease d":      between(leastLease, day, signalbox.WithFirstLease, held...),
		"signalbox.WithMaxHold d":         between(leastLease, day, signalbox.WithMaxHold, leased...),
		"signalbox.WithTokenFloor d":      between(time.Second, day, signalbox.WithTokenFloor, held...),
		"signalbox.WithKeepWarm d":        between(0, time.Minute, signalbox.WithKeepWarm, "reentrant"),
		"signalbox.WithMaxWaiters n":      between(1, math.MaxInt64, signalbox.WithMaxWaiters, "reentrant", "fair", "rwlock", "semaphore"),
		"signalbox.WithReplicas n":        between(1, 100, func(n int) signalbox.LockOption { return signalbox.WithReplicas(n, time.Second) }, single...),
		"signalbox.WithReplicas timeout": between(time.Millisecond, time.Minute, func(d time.Duration) signalbox.LockOption {
			return func(l *session.LockSettings) { // shorter than the lease
				signalbox.WithRenewedLease(time.Hour)(l)
				signalbox.WithReplicas(1, d)(l)
			}
		}, single...),
		"signalbox.WithCloseGrace d": numberOf(1, day, closesWithin),
		"redlock.GreatestLease d":    between(30*time.Second, day, redlock.GreatestLease, "redlock"),
		"redisson.FairLockWaitTimeout d": between(4*time.Second, day, func(d time.Duration) signalbox.LockOption {
			return signalbox.WithLayout(redisson.Layout(redisson.FairLockWaitTimeout(d)))
		}, "java"),
		"election.StepDown d":     between(0, election.DefaultLease/2, election.StepDown, "election"),
		"once.Keep d":             between(time.Second, longestKeep, once.Keep, "once"),
		"once.Linger d":           between(0, longestKeep, once.Linger, "once"),
		"countdown.Keep d":        between(time.Minute, longestKeep, countdown.Keep, "countdown"),
		"countdown.Latch.Start n": numberOf(1, countdown.MaxCount, startsRound),
		"countdown.Latch.RoundOf id": anyNumber(func(b *boundTrial, v int64) error {
			return waitsForRound(b, uint64(v)) //nolint:gosec // the greatest ones, too
		}),
		"once.Once.At tick":                         numberOf(time.Time{}.Unix()+1, int64(253402300799), runsTick),
		"scripts.Load version":                      anyNumber(loadsScript),
		"inspect.NewList every":                     numberOf(100*time.Millisecond, math.MaxInt64, listsNames),
		"inspect.BreakSeen seen":                    anyNumber(breaksEntry),
		"signalbox.UnconfirmedError.Error receiver": anyNumber(printsError),
	}
	rows["signalbox.UnconfirmedError.Is receiver"] = rows["signalbox.UnconfirmedError.Error receiver"]
	rows["signalbox.UnconfirmedError.Unwrap receiver"] = rows["signalbox.UnconfirmedError.Error receiver"]
	maps.Copy(rows, semaphoreRows())
	maps.Copy(rows, shardRows())
	return rows
}

// closesWithin closes a session with a holder that does not unlock, and a context without end.
func closesWithin(b *boundTrial, d time.Duration) error {
	s, _, end := b.servers[0].session(b.T, quiet, signalbox.WithCloseGrace(d))
	defer end()
	if _, err := reentrant.New(s, b.name).Lock(b.limited(time.Minute)); err != nil {
		return err
	}
	ctx := context.Background()
	if d > time.Minute { // a day of renewals takes long
		ctx = b.limited(time.Minute)
	}
	_ = b.returnsWithin(min(d, time.Minute)+boundSpan, func() error { return s.Close(ctx) }) // it says that a lease was left
	return boundUses["reentrant"](b, b.other)
}

// startsRound starts a round, and lets another process reset it.
func startsRound(b *boundTrial, n int) error {
	round, err := countdown.New(b.s[0], b.name).Start(b.limited(time.Minute), n)
	if err == nil {
		var left int
		left, err = round.Count(b.limited(time.Minute))
		require.Equal(b, n, left)
		require.NoError(b, countdown.New(b.other[0], b.name).Reset(b.limited(time.Minute)))
	}
	require.NoError(b, boundUses["countdown"](b, b.other))
	return err
}

// waitsForRound waits for a round that there is not, beside one that there is.
func waitsForRound(b *boundTrial, id uint64) error {
	latch := countdown.New(b.s[0], b.name)
	if _, err := countdown.New(b.other[0], b.name).Start(b.limited(time.Minute), 1); err != nil {
		return err
	}
	noRound := []string{"ErrBadOption", "ErrRoundOver", "ErrRoundLost"}
	err := b.returnsWithin(time.Minute, func() error { return latch.RoundOf(id).Wait(b.limited(30 * time.Second)) })
	require.Contains(b, noRound, found(err), id)
	_, err = latch.RoundOf(id).CountDown(b.limited(time.Minute), "id")
	require.Contains(b, noRound, found(err), id)
	require.NoError(b, latch.Reset(b.limited(time.Minute)))
	return boundUses["countdown"](b, b.other)
}

// runsTick runs the tick at so many seconds.
func runsTick(b *boundTrial, at int64) error {
	tick := once.New(b.s[0], b.name).At(time.Unix(at, 0))
	_, _, err := tick.Do(b.limited(time.Minute), func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
	if err == nil {
		_, stored, failed := once.New(b.other[0], b.name).At(time.Unix(at, 0)).Get(b.limited(time.Minute))
		require.NoError(b, failed)
		require.True(b, stored)
	}
	return err
}

func loadsScript(b *boundTrial, version int) error {
	require.Equal(b, version == 1, scripts.Load("lock/enter", version) != nil, version)
	return nil
}

// listsNames lists a lock that is held.
func listsNames(b *boundTrial, every time.Duration) error {
	lease, err := reentrant.New(b.other[0], b.name).Lock(b.limited(time.Minute))
	if err != nil {
		return err
	}
	l := inspect.NewList(b.s[0], "", every)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	seen := l.Snapshot(b.limited(time.Minute))
	b.watch()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		require.NoError(b, lease.Unlock())
		return err
	}
	require.True(b, slices.ContainsFunc(seen.Entries, func(e inspect.Entry) bool { return e.Name == b.name }), b.name)
	return lease.Unlock()
}

// breaksEntry breaks what an entry lists whose numbers and times are others.
func breaksEntry(b *boundTrial, v int64) error {
	if _, err := reentrant.New(b.other[0], b.name).Lock(b.limited(time.Minute)); err != nil {
		return err
	}
	entries, err := inspect.Name(b.limited(time.Minute), b.s[0], b.name)
	if err != nil {
		return err
	}
	setNumbers(reflect.ValueOf(&entries[0]).Elem(), v)
	if err := inspect.BreakSeen(b.limited(time.Minute), b.s[0], entries[0]); err != nil {
		return err
	}
	return boundUses["reentrant"](b, b.other)
}

// setNumbers sets the numbers and the times of a struct.
func setNumbers(of reflect.Value, v int64) {
	for i := range of.NumField() {
		switch f := of.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.Unix(v, v)))
		case f.CanInt():
			f.SetInt(v)
		case f.CanUint():
			f.SetUint(uint64(v)) //nolint:gosec // the greatest ones, too
		}
	}
}

func printsError(b *boundTrial, v int64) error {
	err := &signalbox.UnconfirmedError{KeyEnds: time.Unix(v, 0), Err: errFalse}
	require.NotEmpty(b, err.Error())
	require.ErrorIs(b, err, errFalse)
	return nil
}

// semaphoreRows are the rows of package semaphore.
func semaphoreRows() map[string]boundRow {
	ofTwo := func(b *boundTrial) *semaphore.Semaphore { return semaphore.New(b.s[0], b.name, 2) }
	permits := func(v int64) error {
		switch {
		case v < 1:
			return signalbox.ErrBadOption
		case v > 2:
			return signalbox.ErrCapacity
		}
		return nil
	}
	weighted := func(v int64) error {
		if v == 0 {
			return nil
		}
		return permits(v)
	}
	acquires := func(acquire func(m *semaphore.Semaphore, ctx context.Context, n int) (signalbox.Lease, error)) boundRow {
		return refusedBy(numberOf(1, 2, func(b *boundTrial, n int) error {
			lease, err := acquire(ofTwo(b), b.limited(boundSpan), n)
			if err == nil {
				b.watch()
				err = lease.Unlock()
			}
			require.NoError(b, boundUses["semaphore"](b, b.other), n)
			return err
		}), permits)
	}
	return map[string]boundRow{
		"semaphore.New capacity": numberOf(1, semaphore.MaxPermits, func(b *boundTrial, n int) error {
			m := semaphore.New(b.s[0], b.name, n)
			lease, err := m.Acquire(b.limited(time.Minute), max(n, 1)) // all of them
			if err == nil {
				b.watch()
				err = lease.Unlock()
			}
			require.NoError(b, boundUses["semaphore"](b, b.other), n)
			return err
		}),
		"semaphore.Semaphore.SetCapacity n": numberOf(1, semaphore.MaxPermits, func(b *boundTrial, n int) error {
			err := ofTwo(b).SetCapacity(b.limited(time.Minute), n)
			require.NoError(b, boundUses["semaphore"](b, b.other), n)
			return err
		}),
		"semaphore.Semaphore.Acquire n":    acquires((*semaphore.Semaphore).Acquire),
		"semaphore.Semaphore.TryAcquire n": acquires((*semaphore.Semaphore).TryAcquire),
		"semaphore.Semaphore.Permits n": acquires(func(m *semaphore.Semaphore, ctx context.Context, n int) (signalbox.Lease, error) {
			return m.Permits(n).Lock(ctx)
		}),
		"semaphore.Semaphore.Do n": acquires(func(m *semaphore.Semaphore, ctx context.Context, n int) (signalbox.Lease, error) {
			if err := m.Do(ctx, n, idle); err != nil {
				return signalbox.Lease{}, err
			}
			return m.Acquire(ctx, n)
		}),
		"semaphore.Weighted.Acquire n": refusedBy(numberOf(0, 2, func(b *boundTrial, n int64) error {
			w := ofTwo(b).Weighted(context.Background())
			err := w.Acquire(b.limited(boundSpan-boundSpan/10), n)
			if err == nil {
				w.Release(n)
			}
			require.NoError(b, boundUses["semaphore"](b, b.other), n)
			return err
		}), weighted),
		"semaphore.Weighted.TryAcquire n": refusedBy(numberOf(0, 2, func(b *boundTrial, n int64) error {
			w := ofTwo(b).Weighted(b.limited(time.Minute))
			is := w.TryAcquire(n)
			require.Equal(b, weighted(n) == nil, is, n)
			if is {
				w.Release(n)
			}
			return boundUses["semaphore"](b, b.other)
		}), func(int64) error { return nil }),
		"semaphore.Weighted.Release n": refusedBy(numberOf(0, 2, func(b *boundTrial, n int64) error {
			w := ofTwo(b).Weighted(context.Background())
			if err := w.Acquire(b.limited(time.Minute), 2); err != nil {
				return err
			}
			err := locktest.PanicOf(func() { w.Release(n) })
			if err != nil {
				n = 0
			}
			w.Release(2 - n)
			require.NoError(b, boundUses["semaphore"](b, b.other), n)
			return err
		}), func(v int64) error {
			if v < 0 || v > 2 {
				return signalbox.ErrNotHeld
			}
			return nil
		}),
	}
}

// shardRows are the rows of package shards.
func shardRows() map[string]boundRow {
	const day = 24 * time.Hour
	inGroup := func(b *boundTrial, use func(ctx context.Context, m *shards.Member, g *shards.Group) error) error {
		g := shards.New(b.s[0], b.name, shards.Count(3))
		m, err := g.Join(b.limited(time.Minute))
		if err != nil {
			return err
		}
		go locktest.TakeUp(m)
		time.Sleep(boundSpan)
		err = use(b.limited(time.Minute), m, g)
		b.watch()
		require.NoError(b, m.Leave(b.limited(time.Minute)))
		require.NoError(b, boundUses["shards"](b, b.other), "afterwards")
		return err
	}
	index := anyNumber(func(b *boundTrial, n int) error {
		defer func() { require.Equal(b, n < 1, recover() != nil, n) }()
		i := shards.Index("key", n)
		require.GreaterOrEqual(b, i, 0)
		require.Less(b, i, n)
		return nil
	})
	view := anyNumber(func(b *boundTrial, n int) error {
		v := &shards.View{Count: n, Unowned: n, Draining: n}
		v.OwnerOf("key")
		v.Owner("3")
		require.Len(b, v.Names(), max(0, min(n, shards.MaxShards)))
		return nil
	})
	mismatch := anyNumber(func(b *boundTrial, n int) error {
		err := &shards.MismatchError{Want: n, Have: n}
		require.NotEmpty(b, err.Error())
		require.ErrorIs(b, err, signalbox.ErrCapacity)
		return nil
	})
	return map[string]boundRow{
		"shards.Weight w":         between(1, shards.MaxWeight, shards.Weight, "shards"),
		"shards.Limit n":          between(1, shards.MaxShards, shards.Limit, "shards"),
		"shards.Moves n":          between(1, shards.MaxShards, shards.Moves, "shards"),
		"shards.RebalanceDelay d": between(0, time.Minute, shards.RebalanceDelay, "shards"),
		"shards.DrainLimit d":     between(time.Second, day, shards.DrainLimit, "shards"),
		"shards.Retry least":      between(time.Millisecond, day, func(d time.Duration) signalbox.LockOption { return shards.Retry(d, day) }, "shards"),
		"shards.Retry most":       between(time.Millisecond, day, func(d time.Duration) signalbox.LockOption { return shards.Retry(time.Millisecond, d) }, "shards"),
		"shards.Count n": numberOf(1, shards.MaxShards, func(b *boundTrial, n int) error {
			g := shards.New(b.s[0], b.name, shards.Count(n))
			err := g.Check()
			if n <= 1000 { // more are granted on a real server, which is quicker
				err = groupUse(b, g, min(n, 10))
			}
			require.NoError(b, boundUses["shards"](b, b.other), n)
			return err
		}),
		"shards.Group.Resize n": numberOf(1, shards.MaxShards, func(b *boundTrial, n int) error {
			if 1000 < n && n <= shards.MaxShards {
				return nil // as above
			}
			return inGroup(b, func(ctx context.Context, _ *shards.Member, g *shards.Group) error { return g.Resize(ctx, n) })
		}),
		"shards.Member.SetWeight w": numberOf(0, shards.MaxWeight, func(b *boundTrial, w int) error {
			return inGroup(b, func(ctx context.Context, m *shards.Member, _ *shards.Group) error { return m.SetWeight(ctx, w) })
		}),
		"shards.Elsewhere d":                   anyNumber(givesAway),
		"shards.Index n":                       index,
		"shards.View.Names receiver":           view,
		"shards.View.Owner receiver":           view,
		"shards.View.OwnerOf receiver":         view,
		"shards.MismatchError.Error receiver":  mismatch,
		"shards.MismatchError.Unwrap receiver": mismatch,
		"shards.ChangeKind.String receiver":    anyNumber(func(b *boundTrial, v int64) error { require.NotEmpty(b, shards.ChangeKind(v).String()); return nil }), //nolint:gosec // the low bits
		"shards.State.String receiver":         anyNumber(func(b *boundTrial, v int64) error { require.NotEmpty(b, shards.State(v).String()); return nil }),      //nolint:gosec // the low bits
	}
}

// givesAway is a member whose functions give each shard away once, and a second one, which gets them all. They do not come back in vain.
func givesAway(b *boundTrial, d time.Duration) error {
	var calls atomic.Int64
	run := func(s *signalbox.Session, work func(context.Context, shards.Shard) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- shards.New(s, b.name, shards.Count(3)).Run(ctx, work) }()
		return func() {
			cancel()
			require.ErrorIs(b, b.returnsWithin(time.Minute, func() error { return <-ended }), context.Canceled)
		}
	}
	leave := run(b.s[0], func(context.Context, shards.Shard) error {
		calls.Add(1)
		return shards.Elsewhere(errFalse, d)
	})
	time.Sleep(boundSpan)
	calls.Store(0)
	b.watch()
	require.LessOrEqual(b, calls.Load(), 3*int64(boundSpan/time.Second), "%v: functions in %v", d, boundSpan)
	var owned atomic.Int64
	stop := run(b.other[0], func(ctx context.Context, _ shards.Shard) error {
		owned.Add(1)
		defer owned.Add(-1)
		<-ctx.Done()
		return nil
	})
	most := int64(3)
	if 0 < d && d < time.Minute { // some are at the first member for a moment, and again
		most = 1
	}
	for began := time.Now(); owned.Load() < most && time.Since(began) < time.Minute; {
		time.Sleep(time.Second)
	}
	require.GreaterOrEqual(b, owned.Load(), most, d)
	leave()
	stop()
	return nil
}
