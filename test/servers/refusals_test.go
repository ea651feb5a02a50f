// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

func containsWords(err error, words string) bool { return strings.Contains(err.Error(), words) }

// P10: a call waits for a refusal that ends by itself, and for a right that its session had before, always in
// the server's words. Nothing is half done meanwhile, and when the refusal is over everything works again.
func TestARefusalIsReportedAndEnds(t *testing.T) {
	t.Parallel()
	all := refusals()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		for n, kind := range locktest.Primitives() {
			if redistest.Quick() && (i+n)%4 != 0 {
				continue // each refusal of one kind of lock, in turn
			}
			t.Run(name+"/"+kind.Name, func(t *testing.T) {
				t.Parallel()
				r.play(t, kind)
			})
		}
	}
}

func (r refusalCase) play(t *testing.T, kind locktest.Primitive) {
	t.Helper()
	if r.user == "" {
		r.user = caller
	}
	if r.options == nil {
		r.options = noOptions
	}
	f := newRefusalFixture(t, r.user, r.options(t)...)
	f.kind = kind
	kept, given := f.lock(t, f.holder, "kept", longLease), f.lock(t, f.holder, "given", longLease)
	spare := make([]signalbox.Lease, spares)
	for i := range spare {
		spare[i] = f.lock(t, f.holder, fmt.Sprint("spare/", i), longLease)
	}
	require.NoError(t, f.secrets.RecordError(f.lock(t, f.other, "free", longLease).Unlock())) // it has the rights that it loses
	short := f.lock(t, f.holder, "short", map[bool]time.Duration{false: brief, true: steady}[r.passes])
	waiting := f.wait(t, f.waiter, "kept")
	before := f.view.MustHold(t, "given")

	r.begin(t, f)
	r.callers(t, f)
	r.holders(t, f, kept, short, append([]signalbox.Lease{given}, spare...))
	if !r.passes && !r.blind {
		after := f.view.MustHold(t, "given")
		require.Equal(t, before.ID, after.ID, "nothing is half released")
		require.Equal(t, before.Token, after.Token)
	}
	require.Empty(t, waiting, "what passes is waited for")
	require.NoError(t, kept.Err(), "a lease is good until its deadline")

	r.end(t, f)
	f.serves(t, f.holder)
	require.NoError(t, kept.Err())
	require.NoError(t, f.secrets.RecordError(kept.Unlock()))
	for _, lease := range spare {
		if lease.Err() == nil {
			require.NoError(t, f.secrets.RecordError(lease.Unlock()))
		}
	}
	next := redistest.Receive(t, "the lock", waiting)
	require.NoError(t, next.err)
	require.Greater(t, next.lease.Token(), kept.Token())
	require.NoError(t, next.lease.Unlock())
	for name, last := range map[string]signalbox.Lease{"kept": kept, "given": given, "short": short} {
		lease := f.lock(t, f.other, name, longLease)
		require.Greater(t, lease.Token(), last.Token(), name)
		require.NoError(t, lease.Unlock())
	}
	f.clean(t)
}

// callers checks what the callers see that want a free lock.
func (r refusalCase) callers(t *testing.T, f *refusalFixture) {
	t.Helper()
	r.reports(t, "TryLock", func() error {
		err := f.try(f.other, "free")
		require.Error(t, err)
		return err
	})
	dials := r
	dials.words = cmp.Or(r.dial, r.words)
	dials.reports(t, "Dial", func() error { return f.secrets.RecordError(f.dial()) })
	patience := firstWait / 2
	r.reports(t, "Lock", func() error {
		patience *= 2
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := f.kind.New(f.other, "free").Lock(ctx)
		require.Error(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return f.secrets.RecordError(err)
	})
}

// reports waits until a call returns the refusal in the server's words, or succeeds because its script is
// not refused. Connections may have been cut a moment ago, and not know yet; and a server that closes a
// connection as it refuses may close it before its words are read.
func (r refusalCase) reports(t *testing.T, what string, call func() error) {
	t.Helper()
	redistest.AwaitFor(t, 2*redistest.Patience, what+" reports the refusal", func() bool {
		err := call()
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		return err == nil || refused(err, r.sentinel, r.words) == nil
	})
}

// spares is how many locks are released until one Unlock returns the refusal within its second.
const spares = 5

// holders checks what the holders of locks see. It unlocks the leases in given until one Unlock returns the
// refusal: a busy machine may need the whole second of an Unlock to make a connection.
func (r refusalCase) holders(t *testing.T, f *refusalFixture, kept, short signalbox.Lease, given []signalbox.Lease) {
	t.Helper()
	if r.passes {
		if before := short.Deadline(); !testing.Short() { // which comes in two seconds
			redistest.Await(t, "a renewal", func() bool { return short.Deadline().Sub(before) > steady/20 })
		}
		require.NoError(t, f.secrets.RecordError(short.Unlock()))
		require.NoError(t, f.secrets.RecordError(given[0].Unlock()))
		require.True(t, f.view.Free("given"))
		r.reports(t, "TryLock of what was released", func() error {
			err := f.try(f.other, "given")
			require.Error(t, err)
			return err
		})
		return
	}
	// Renewals are tried until the deadline, and then the lease is over: P2.
	redistest.Receive(t, "the end of a lease that is not renewed", short.Done())
	require.ErrorIs(t, short.Err(), signalbox.ErrLost)
	require.ErrorIs(t, f.secrets.RecordError(short.Unlock()), signalbox.ErrLost)

	var wrong error
	for _, lease := range given {
		err := f.secrets.RecordError(lease.Unlock())
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
		if wrong = refused(err, r.sentinel, r.words); wrong == nil || cutShort(err) {
			wrong = nil
			break
		}
	}
	require.NoError(t, wrong, "Unlock")
	require.Positive(t, locktest.Undoing(f.holder), "it continues in the background")
	require.NoError(t, kept.Err())
}

// cutShort reports whether a call ended because its connection was closed, which a server may do before its
// words are read, or because no connection was made: a machine that stalls makes none in time.
func cutShort(err error) bool {
	var dial *net.OpError
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout()
}

// A server that evicts keys when its memory is full is warned of once a session, at its first contact; one
// that does not, or does not say, is not.
func TestEvictionIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, policy string
		denied        bool
		warned        bool
	}{
		"Evicts":          {limit: "64mb", policy: "volatile-ttl", warned: true},
		"EvictsAnyKey":    {limit: "64mb", policy: "allkeys-lfu", warned: true},
		"NoEviction":      {limit: "64mb", policy: "noeviction"},
		"NoLimit":         {limit: "0", policy: "allkeys-lru"},
		"WithoutTheRight": {limit: "64mb", policy: "allkeys-lru", denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRefusalFixture(t, caller, redistest.WithArgs("--maxmemory", c.limit, "--maxmemory-policy", c.policy))
			if c.denied {
				f.do(t, "ACL", "SETUSER", caller, "-info")
			}
			locktest.Together(t, 8, func(i int) error { // whose first contacts may be at the same time
				lease, err := reentrant.New(f.holder, fmt.Sprint("warned/", i)).Lock(locktest.Context(t))
				if err != nil {
					return err
				}
				return lease.Unlock()
			})
			require.NoError(t, f.holder.Close(t.Context()), "which writes what was logged")
			said := f.secrets.Recorded()
			if !c.warned {
				require.Empty(t, said)
				return
			}
			require.Equal(t, 1, strings.Count(said, "\n"), said)
			require.Contains(t, said, "level=WARN")
			require.Contains(t, said, "set maxmemory-policy to noeviction")
			require.Contains(t, said, "maxmemory-policy="+c.policy)
			require.NoError(t, f.lock(t, f.other, "warned/0", longLease).Unlock())
			require.NoError(t, f.other.Close(t.Context()))
			require.Equal(t, 2, strings.Count(f.secrets.Recorded(), "\n"), "another session has a log of its own")
		})
	}
}

// P10: a server whose configuration takes the scripts' commands away is said to, without the arguments
// that its words repeat.
func TestAServerWithoutScriptsIsErrDenied(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]string{
		"EVALSHA": {"--rename-command", "EVALSHA", ""},
		"EVAL":    {"--rename-command", "EVAL", ""}, // the script has to be sent
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, secrets := redistest.Start(t, redistest.WithArgs(gone...)), locktest.NewSecrets(t)
			s := locktest.Session(t, server)
			secrets.AddSession(s)
			secrets.Add("local ", locktest.Key("a"))
			for range 2 {
				_, err := reentrant.New(s, "a").Lock(t.Context())
				require.NoError(t, refused(secrets.RecordError(err), signalbox.ErrDenied, "unknown command '"+name+"' (the server has no "+name))
				_, err = reentrant.New(s, "a").TryLock(t.Context())
				require.ErrorIs(t, secrets.RecordError(err), signalbox.ErrDenied)
			}
			require.Empty(t, server.Keys("*"))
			require.Zero(t, locktest.Undoing(s), "it is known that nothing was executed")
		})
	}
}
