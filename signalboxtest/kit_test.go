// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// each runs a test in a bubble and outside of one: the calls are the same.
func each(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
	t.Run("real time", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// P4: nothing runs when the test has ended, whatever it left behind.
func TestNoGoroutineIsLeft(t *testing.T) { //nolint:paralleltest // counts all goroutines
	for name, leave := range map[string]func(kit *signalboxtest.Kit, s *signalbox.Session){ //nolint:paralleltest // as above
		"nothing":             func(*signalboxtest.Kit, *signalbox.Session) {},
		"a stopped server":    func(kit *signalboxtest.Kit, _ *signalbox.Session) { kit.Stop() },
		"a started server":    func(kit *signalboxtest.Kit, _ *signalbox.Session) { kit.Stop(); kit.Start() },
		"a session cut off":   func(kit *signalboxtest.Kit, s *signalbox.Session) { kit.Partition(s) },
		"a session paused":    func(kit *signalboxtest.Kit, s *signalbox.Session) { kit.Pause(s) },
		"a lock that is lost": func(kit *signalboxtest.Kit, _ *signalbox.Session) { kit.Lose("a") },
		"a session closed":    func(_ *signalboxtest.Kit, s *signalbox.Session) { _ = s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			tb, end := exampleT()
			defer end()
			kit := signalboxtest.New(tb)
			s := kit.Session(signalbox.WithCloseGrace(time.Millisecond))
			lease, err := reentrant.New(s, "a").Lock(t.Context())
			require.NoError(t, err)
			kit.Client()
			waits := fair.New(kit.Session(), "a")
			waited := make(chan error, 1)
			go func() {
				_, err := waits.Lock(context.Background())
				waited <- err
			}()
			leave(kit, s)
			end()
			require.Error(t, lease.Err())
			if err := <-waited; err != nil { // a session that was closed has released the lock
				require.ErrorIs(t, err, signalbox.ErrClosed)
			}
		})
	}
}

func TestTheDataOutlivesTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		lease, err := reentrant.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		kit.Stop()
		kit.Advance(time.Second)
		_, err = reentrant.New(s, "b").TryLock(t.Context())
		require.ErrorContains(t, err, "connection refused")
		kit.Start()
		require.True(t, kit.HeldBy("a", s))
		kit.Advance(10 * time.Second)
		require.NoError(t, lease.Unlock())
		lease, err = reentrant.New(s, "b").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock())
	})
}

// A process may find the server away when it releases: the release is repeated, and the lock is free soon.
func TestAReleaseOutlivesAStop(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		lease, err := reentrant.New(kit.Session(), "a").Lock(t.Context())
		require.NoError(t, err)
		kit.Stop()
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrUnconfirmed)
		kit.Start()
		next, err := reentrant.New(kit.Session(), "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock())
	})
}

// A redlock gets a vote of every new kit at once, and none of one that lost its data.
func TestARedlockNeedsServersThatKeptTheirData(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kits := make([]*signalboxtest.Kit, 3)
		for i := range kits {
			kits[i] = signalboxtest.New(t, signalboxtest.LoseData())
		}
		lock := redlock.New(process(kits), "a")
		lease, err := lock.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock())
		for _, k := range kits[:2] {
			k.Stop()
			k.Start()
		}
		_, err = redlock.New(process(kits), "a").TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrRefused)
	})
}

func TestHoldHoldsEachKind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		s := kit.Session()
		try := func(acquire func(context.Context) (signalbox.Lease, error)) error {
			lease, err := acquire(t.Context())
			if err == nil {
				err = lease.Unlock()
			}
			return err
		}
		permits := func(n int) func(context.Context) (signalbox.Lease, error) {
			return func(ctx context.Context) (signalbox.Lease, error) { return semaphore.New(s, "d", 3).TryAcquire(ctx, n) }
		}
		others := []*signalboxtest.Holding{
			kit.Hold("a"), kit.Hold("b", signalboxtest.Writing()), kit.Hold("c", signalboxtest.Reading()),
			kit.Hold("d", signalboxtest.Permits(2, 3)),
		}
		require.ErrorIs(t, try(fair.New(s, "a").TryLock), signalbox.ErrHeld)
		require.ErrorIs(t, try(rwlock.New(s, "b").TryRLock), signalbox.ErrHeld)
		require.NoError(t, try(rwlock.New(s, "c").TryRLock))
		require.ErrorIs(t, try(rwlock.New(s, "c").TryLock), signalbox.ErrHeld)
		require.NoError(t, try(permits(1)))
		require.ErrorIs(t, try(permits(2)), signalbox.ErrHeld)
		for _, other := range others {
			other.Release()
		}
		require.NoError(t, try(fair.New(s, "a").TryLock))
		require.NoError(t, try(rwlock.New(s, "b").TryLock))
		require.NoError(t, try(rwlock.New(s, "c").TryLock))
		require.NoError(t, try(permits(3)))
	})
}

// P3: the tokens of two holders differ though a bubble's clock would stand still between them.
func TestTokensRiseWhileTimeStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		lease, err := reentrant.New(kit.Session(), "a").TryLock(t.Context())
		require.NoError(t, err)
		kit.Expire("a")
		require.Greater(t, kit.Hold("a").Token(), lease.Token())
	})
}

func TestAServerThatStopsForgetsItsScripts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		client := kit.Client()
		digest, err := client.Do(t.Context(), client.B().ScriptLoad().Script("return 1").Build()).ToString()
		require.NoError(t, err)
		kit.Stop()
		kit.Start()
		client = kit.Client()
		known, err := client.Do(t.Context(), client.B().ScriptExists().Sha1(digest).Build()).AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{0}, known)
	})
}

// The other process, which the kit plays, can lose a lock as well, and acquire it again.
func TestTheOtherProcessCrashes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t, signalboxtest.LoseData())
		s := kit.Session()
		crashed := kit.Hold("a")
		kit.Expire("a")
		lease, err := reentrant.New(s, "a").TryLock(t.Context())
		require.NoError(t, err)
		require.Greater(t, lease.Token(), crashed.Token())
		kit.Lose("a")
		<-lease.Done()
		kit.Stop()
		kit.Start()
		require.False(t, kit.IsHeld("a"))
		other := kit.Hold("a")
		crashed.Release()
		require.True(t, kit.IsHeld("a"))
		other.Release()
		require.False(t, kit.IsHeld("a"))
	})
}

func TestSessionsShareTheirDefaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) {
		kit := signalboxtest.New(t, signalboxtest.SessionDefaults(signalbox.WithPrefix("shop:"), signalbox.WithHashedNames()))
		s := kit.Session(signalbox.WithLabel("a label"))
		lease, err := reentrant.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		require.True(t, kit.HeldBy("a", s))
		holder, err := reentrant.New(s, "a").Holder(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a label", holder.Label)
		kit.Lose("a")
		<-lease.Done()
	})
}

func TestWhatWasForgottenIsLogged(t *testing.T) {
	t.Parallel()
	log := &logged{fakeT: new(fakeT)}
	kit := signalboxtest.New(log)
	_, err := reentrant.New(kit.Session(), "order/42").Lock(t.Context())
	require.NoError(t, err)
	log.end()
	require.Contains(t, log.String(), "order/42")
}

// logged is a fakeT that keeps its output.
type logged struct {
	*fakeT
	bytes.Buffer
}

func (l *logged) Output() io.Writer { return l }

func TestMistakesFailTheTestInClearWords(t *testing.T) {
	t.Parallel()
	hold := func(kit *signalboxtest.Kit, name string) {
		if _, err := reentrant.New(kit.Session(), name).Lock(context.Background()); err != nil {
			panic(err)
		}
	}
	for want, mistake := range map[string]func(kit *signalboxtest.Kit){
		`signalboxtest: Lose("ordre"): no session holds it; held: "order"`: func(kit *signalboxtest.Kit) {
			hold(kit, "order")
			kit.Lose("ordre")
		},
		`signalboxtest: Lose("order"): no session holds it in this layout`: func(kit *signalboxtest.Kit) {
			hold(kit, "order")
			kit.In(setnx.Layout()).Lose("order")
		},
		`signalboxtest: Expire("ordre"): no session holds it; held: nothing`:          func(kit *signalboxtest.Kit) { kit.Expire("ordre") },
		`signalboxtest: Hold("order"): signalbox: try lock "order": the lock is held`: func(kit *signalboxtest.Kit) { hold(kit, "order"); kit.Hold("order") },
		`signalboxtest: Lose("order"): the kit itself holds it; call Release first`:   func(kit *signalboxtest.Kit) { kit.Hold("order"); kit.Lose("order") },
		`signalboxtest: Hold(""): the name is not valid: it is empty`:                 func(kit *signalboxtest.Kit) { kit.Hold("") },
		`signalboxtest: Hold: the server is stopped; call Start first`:                func(kit *signalboxtest.Kit) { kit.Stop(); kit.Hold("order") },
		`signalboxtest: Session: the server is stopped; call Start first`:             func(kit *signalboxtest.Kit) { kit.Stop(); kit.Session() },
		`signalboxtest: Stop: the server is stopped; call Start first`:                func(kit *signalboxtest.Kit) { kit.Stop(); kit.Stop() },
		`signalboxtest: Start: the server is running; call Stop first`:                func(kit *signalboxtest.Kit) { kit.Start() },
		`signalboxtest: Partition: the session is not one of Kit.Session`:             func(kit *signalboxtest.Kit) { kit.Partition(nil) },
		`signalboxtest: Pause: the session is not one of Kit.Session`:                 func(kit *signalboxtest.Kit) { kit.Pause(nil) },
		`signalboxtest: Resume: the session is not one of Kit.Session`:                func(kit *signalboxtest.Kit) { kit.Resume(nil) },
		`signalboxtest: Session: pass WithPrefix and WithHashedNames to New, by SessionDefaults`: func(kit *signalboxtest.Kit) {
			kit.Session(signalbox.WithPrefix("shop:"))
		},
		`signalboxtest: Advance(1s): call it in a bubble of testing/synctest: goroutine is not in a bubble`: func(kit *signalboxtest.Kit) {
			kit.Advance(time.Second)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, fatal(func(f *fakeT) { mistake(signalboxtest.New(f)) }))
		})
	}
}

// Numbers that are too small or too large fail the test, and do not hang it.
func TestNumbersOfTheKitHaveBounds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{math.MinInt, -1, 0, 3, math.MaxInt} {
		require.Contains(t, fatal(func(f *fakeT) { signalboxtest.New(f).Hold("a", signalboxtest.Permits(n, 2)) }), `Hold("a")`, n)
		if n != 3 {
			require.Contains(t, fatal(func(f *fakeT) { signalboxtest.New(f).Hold("a", signalboxtest.Permits(1, n)) }), signalbox.ErrBadOption.Error(), n)
		}
		require.Contains(t, fatal(func(f *fakeT) { signalboxtest.New(f).Advance(time.Duration(math.MaxInt64)) }), "from 0 to")
		require.Contains(t, fatal(func(f *fakeT) { signalboxtest.New(f).Advance(-1) }), "from 0 to")
	}
}

// As on a real server, no key expires while a script runs.
func TestNoKeyExpiresWhileAScriptRuns(t *testing.T) {
	t.Parallel()
	c := signalboxtest.New(t).Client()
	const script = `redis.call('SET', KEYS[1], 'here', 'PX', 1)
for _ = 1, 5000 do redis.call('EXISTS', KEYS[1]) end
return redis.call('EXISTS', KEYS[1])`
	is, err := c.Do(t.Context(), c.B().Eval().Script(script).Numkeys(1).Key("a").Build()).AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(1), is)
}
