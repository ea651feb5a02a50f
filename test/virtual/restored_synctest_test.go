// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// backup is all keys of a server, as of one moment.
type backup map[string]keyBackup

// keyBackup is one key, with the value of its type.
type keyBackup struct {
	text    string
	fields  map[string]string
	members map[string]float64
	life    time.Duration // 0 if it does not end
}

func backupOf(t *testing.T, m *miniredis.Miniredis) backup {
	t.Helper()
	all := make(backup)
	for _, key := range m.Keys() {
		one := keyBackup{life: m.TTL(key)}
		var err error
		switch kind := m.Type(key); kind {
		case "string":
			one.text, err = m.Get(key)
		case "hash":
			one.fields = make(map[string]string)
			var fields []string
			fields, err = m.HKeys(key)
			for _, field := range fields {
				one.fields[field] = m.HGet(key, field)
			}
		case "zset":
			one.members, err = m.SortedSet(key)
		default:
			t.Fatalf("%s has the type %s", key, kind)
		}
		require.NoError(t, err)
		all[key] = one
	}
	return all
}

// restore gives a server these keys, with the lives that they had, and no others.
func (b backup) restore(t *testing.T, m *miniredis.Miniredis) {
	t.Helper()
	m.FlushAll()
	for key, one := range b {
		for field, value := range one.fields {
			m.HSet(key, field, value)
		}
		for member, score := range one.members {
			_, err := m.ZAdd(key, score, member)
			require.NoError(t, err)
		}
		if one.fields == nil && one.members == nil {
			require.NoError(t, m.Set(key, one.text))
		}
		if one.life > 0 {
			m.SetTTL(key, one.life)
		}
	}
}

// P2, P3: if a backup brings back an old hold and an old ticket, the next renewal of the present holder reports its loss. The old
// hold delays others by its life, and the old ticket by the life of its heartbeats. Then the token is higher than any before.
func TestARestoredHoldEndsByItself(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for _, kind := range locktest.Primitives() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *fixture) {
				lock := func() locktest.Lock {
					s, _, end := w.session(w.T)
					w.ends = append(w.ends, end)
					return kind.New(s, "a", signalbox.WithRenewedLease(lease))
				}
				defer func() {
					for _, end := range w.ends {
						end()
					}
				}()
				old := atOnce(w.T, lock())
				waiter := lock()
				waited := locktest.Later(func() (signalbox.Lease, error) { return waiter.Lock(w.Context()) })
				time.Sleep(15 * time.Second)
				kept := backupOf(w.T, w.redis)
				require.NoError(w, old.Unlock())
				require.NoError(w, locktest.MustHave(w.T, waited).Unlock())
				time.Sleep(time.Minute)
				present := atOnce(w.T, lock())
				time.Sleep(15 * time.Second)

				kept.restore(w.T, w.redis)
				restored := time.Now()
				<-present.Done()
				require.LessOrEqual(w, time.Since(restored), lease/3+100*time.Millisecond)
				require.ErrorIs(w, present.Err(), signalbox.ErrLost)
				next, err := lock().Lock(w.Context())
				require.NoError(w, err)
				w.Logf("acquired after %v", time.Since(restored))
				require.LessOrEqual(w, time.Since(restored), lease+4*time.Second)
				require.Greater(w, next.Token(), present.Token())
				require.NoError(w, next.Unlock())
				again, err := waiter.Lock(w.Context())
				require.NoError(w, err)
				require.Greater(w, again.Token(), next.Token())
				require.NoError(w, again.Unlock())
			})
		})
	}
}

// If another program moves the queue of one name to another name, a waiter believes a grant of the other name. Its first renewal
// finds that, within a second; the holder of its own name keeps its lease, and the other name is free after that.
func TestAGrantOfAnotherNameEndsAtTheFirstRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, end := w.session(w.T)
		defer end()
		other, _, endOther := w.session(w.T)
		defer endOther()
		held, err := reentrant.New(s, "held").Lock(w.Context())
		require.NoError(w, err)
		moved, err := reentrant.New(s, "moved").Lock(w.Context())
		require.NoError(w, err)
		deceived := make(chan signalbox.Lease, 1)
		go func() {
			lease, err := reentrant.New(other, "held").Lock(w.Context())
			if err == nil {
				deceived <- lease
			}
		}()
		third, _, endThird := w.session(w.T)
		defer endThird()
		honest := locktest.Later(func() (signalbox.Lease, error) { return reentrant.New(third, "moved").Lock(w.Context()) })
		time.Sleep(5*time.Second + 500*time.Millisecond)
		moves := make(backup)
		for key, one := range backupOf(w.T, w.redis) {
			switch isQueue := !strings.HasSuffix(key, ":lock"); {
			case isQueue && strings.Contains(key, "{held}"):
				moves[strings.Replace(key, "{held}", "{moved}", 1)] = one
			case !isQueue:
				moves[key] = one
			}
		}
		moves.restore(w.T, w.redis)
		require.NoError(w, moved.Unlock())
		lease := <-deceived
		granted := time.Now()
		<-lease.Done()
		w.Logf("deceived for %v", time.Since(granted))
		require.LessOrEqual(w, time.Since(granted), time.Second)
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		require.NoError(w, held.Err())
		require.NoError(w, locktest.MustHave(w.T, honest).Unlock())
		require.NoError(w, held.Unlock())
	})
}

// If a backup brings back an old outcome or an old round, that is what callers see. A later round is reported as lost.
func TestARestoredOutcomeOrRoundIsTheOldOne(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, end := w.session(w.T)
		defer end()
		o, latch := once.New(s, "a"), countdown.New(s, "a")
		require.Equal(w, "old", doOnce(w.Context(), o, "old", 0).value)
		old, err := latch.Start(w.Context(), 1)
		require.NoError(w, err)
		kept := backupOf(w.T, w.redis)
		require.NoError(w, o.Forget(w.Context()))
		require.Equal(w, "new", doOnce(w.Context(), o, "new", 0).value)
		_, err = old.CountDown(w.Context(), "x")
		require.NoError(w, err)
		later, err := latch.Start(w.Context(), 1)
		require.NoError(w, err)
		require.Greater(w, later.ID(), old.ID())
		waiting := make(chan error, 1)
		go func() { waiting <- later.Wait(w.Context()) }()
		time.Sleep(5 * time.Second)

		kept.restore(w.T, w.redis)
		restored := time.Now()
		require.ErrorIs(w, <-waiting, signalbox.ErrRoundLost)
		require.LessOrEqual(w, time.Since(restored), time.Second)
		_, err = later.CountDown(w.Context(), "x")
		require.ErrorIs(w, err, signalbox.ErrRoundLost)
		value, stored, err := o.Get(w.Context())
		require.NoError(w, err)
		require.True(w, stored)
		require.Equal(w, "old", string(value))
		_, err = old.CountDown(w.Context(), "y")
		require.NoError(w, err)
		require.NoError(w, old.Wait(w.Context()))
		next, err := latch.Start(w.Context(), 1)
		require.NoError(w, err)
		require.Greater(w, next.ID(), later.ID(), "ids rise all the same")
	})
}
