// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	wirekit "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
)

// These tests run alone: a connection that any test of the process closes lets all sessions acquire their next lock by script.

// plainFixture is a server that records which commands of plain acquires it executed, and a session that tries them.
type plainFixture struct {
	*fixture

	*signalbox.Session
	link   *wire
	fault  *requestFault                                    // the fault of a plain acquire
	before map[string]func(c *server.Peer, key string) bool // called before a command of a plain acquire, which it may replace
	names  int

	mu struct {
		sync.Mutex
		sent []string // the commands of plain acquires
	}
}

// bubbleOfPlain runs a test with a session that has acquired as many fresh names as it takes until it tries the plain acquire.
func bubbleOfPlain(t *testing.T, kind redistest.FaultKind, test func(p *plainFixture)) {
	t.Helper()
	bubble(t, func(f *fixture) {
		p := &plainFixture{fixture: f, fault: newRequestFault(kind), before: make(map[string]func(*server.Peer, string) bool)}
		p.fault.text = "PXAT"
		f.redis.Server().SetPreHook(p.hook)
		c, link := f.client(f.T, p.fault.on, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 10 * time.Second }) // longer than any delay
		p.Session, p.link = signalbox.NewSession(c), link
		defer func() {
			_ = p.Close(locktest.Ended()) // says that leases were left, which the test knows
			c.Close()
		}()
		p.warm()
		test(p)
		synctest.Wait()
	})
}

// hook records the commands of plain acquires. Scripts call SET with PX, and PTTL and GET only while they run, when nothing else does.
func (p *plainFixture) hook(c *server.Peer, command string, args ...string) bool {
	if before := p.before[command]; p.record(command, args) && before != nil {
		return before(c, args[0])
	}
	return false
}

// record records a command, and reports whether it belongs to a plain acquire.
func (p *plainFixture) record(command string, args []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.mu.sent) - 1
	if !slices.Contains(args, "PXAT") && (last < 0 || !slices.Contains([]string{"SET PTTL", "PTTL GET"}, p.mu.sent[last]+" "+command)) {
		return false
	}
	p.mu.sent = append(p.mu.sent, command)
	return true
}

// fresh returns a name that no session has used.
func (p *plainFixture) fresh() string {
	p.names++
	return fmt.Sprint("fresh/", p.names)
}

// warm acquires fresh names until a plain acquire was sent. The handshake uses the first name, and 32 more have to be free.
func (p *plainFixture) warm() {
	for range 34 {
		require.Empty(p, p.plain())
		p.use(p.fresh())
	}
	require.Equal(p, acquired, p.plain())
}

// use acquires a lock and releases it.
func (p *plainFixture) use(name string) {
	p.Helper()
	lease, err := reentrant.New(p.Session, name).Lock(p.Context())
	require.NoError(p, err)
	require.NoError(p, lease.Unlock())
}

// plain returns the commands of plain acquires that the server executed since it was last called.
func (p *plainFixture) plain() (sent []string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	sent, p.mu.sent = p.mu.sent, nil
	return sent
}

// setEstimate lets the session think that the server's clock is wrong by that.
func (p *plainFixture) setEstimate(off time.Duration) {
	now := clock.Now()
	(*session.Handle)(p.Session).Session().Clock.Observe(0, wirekit.Stamp(time.Now().Add(off).UnixMicro()), now)
}

// acquired lists the commands of a plain acquire.
var acquired = []string{"SET", "PTTL", "GET"}

// P1, P7: a session that acquires fresh names does so by a plain acquire from the 34th on, and releases them by the short release. A
// name that it has used is acquired by script.
func TestFreshNames_ArePlain(t *testing.T) {
	bubbleOfPlain(t, 0, func(p *plainFixture) {
		for range 200 {
			name := p.fresh()
			p.use(name)
			require.Equal(p, acquired, p.plain(), name)
			p.use(name)
			require.Empty(p, p.plain(), name)
		}
		lease, err := fair.New(p.Session, p.fresh()).TryLock(p.Context())
		require.NoError(p, err)
		require.Equal(p, acquired, p.plain())
		require.NoError(p, lease.Unlock())
	})
}

// P1, P3: the hold is what a script would have made of it: it lasts, others meet it, and it leaves the floor.
func TestPlainHold_IsAHold(t *testing.T) {
	bubbleOfPlain(t, 0, func(p *plainFixture) {
		name := p.fresh()
		lease, err := reentrant.New(p.Session, name).Lock(p.Context())
		require.NoError(p, err)
		require.Equal(p, acquired, p.plain())
		require.LessOrEqual(p, p.redis.TTL(locktest.Key(name)), 3050*time.Millisecond)
		other, _, end := p.fixture.session(p.T)
		defer end()
		_, err = reentrant.New(other, name).TryLock(p.Context())
		require.ErrorIs(p, err, signalbox.ErrHeld)
		holder, err := reentrant.New(other, name).Holder(p.Context())
		require.NoError(p, err)
		require.Equal(p, lease.Token(), holder.Token)
		waiting := make(chan signalbox.Lease)
		go func() {
			next, _ := reentrant.New(other, name).Lock(p.Context())
			waiting <- next
		}()
		time.Sleep(time.Minute)
		require.NoError(p, lease.Err())
		require.NoError(p, lease.Unlock())
		next := <-waiting
		require.Greater(p, next.Token(), lease.Token())
		require.NoError(p, next.Unlock())
	})
}

// P1, P2, P3: an estimate of the server's time that is off by more than the plain acquire allows for is found out. The session continues
// by script, under another ticket, and leaves nothing behind.
func TestWrongEstimate_IsFoundOut(t *testing.T) {
	for _, off := range []time.Duration{
		-50 * time.Second, -3500 * time.Millisecond, -3 * time.Second, -2900 * time.Millisecond, -100 * time.Millisecond, -60 * time.Millisecond,
		10 * time.Millisecond, 100 * time.Millisecond, 2900 * time.Millisecond, 3500 * time.Millisecond, 50 * time.Second,
	} {
		for _, try := range []bool{false, true} {
			bubbleOfPlain(t, 0, func(p *plainFixture) {
				p.setEstimate(off)
				name, at := p.fresh(), time.Now()
				mu := reentrant.New(p.Session, name)
				acquire := mu.Lock
				if try {
					acquire = mu.TryLock
				}
				lease, err := acquire(p.Context())
				require.NoError(p, err, off)
				require.Equal(p, acquired, p.plain(), off)
				p.requireToken(lease, at, max(off, 0)) // what is ahead stays the floor
				require.NoError(p, lease.Unlock())
				require.Zero(p, p.left(name))
				later, err := mu.Lock(p.Context())
				require.NoError(p, err)
				require.Greater(p, later.Token(), lease.Token())
				require.NoError(p, later.Unlock())
				for range 40 { // it is not tried again soon
					p.use(p.fresh())
				}
				require.Empty(p, p.plain())
			})
		}
	}
}

// requireToken requires that the token of a lease is that of the server's time, at most 50 ms before at, and ahead and 3 ms after now.
func (p *plainFixture) requireToken(lease signalbox.Lease, at time.Time, ahead time.Duration) {
	p.Helper()
	stamp := wirekit.StampOf(lease.Token()).Time()
	require.WithinRange(p, stamp, at.Add(-50*time.Millisecond), time.Now().Add(ahead+3*time.Millisecond))
}

// P1: an estimate that is off by no more than is allowed for is believed, and the lease is no longer for it.
func TestNearlyRightEstimate_IsBelieved(t *testing.T) {
	for _, off := range []time.Duration{-45 * time.Millisecond, -time.Millisecond, 0, time.Millisecond} {
		bubbleOfPlain(t, 0, func(p *plainFixture) {
			p.setEstimate(off)
			name := p.fresh()
			lease, err := reentrant.New(p.Session, name, signalbox.WithFixedLease(2*time.Second)).Lock(p.Context())
			require.NoError(p, err)
			require.Equal(p, acquired, p.plain())
			require.Less(p, lease.Deadline(), time.Now().Add(2*time.Second))
			scripts := p.scripts.Load()
			<-lease.Done()
			require.Positive(p, p.left(name), "the lease ends before the hold")
			require.Equal(p, scripts, p.scripts.Load(), "a fixed lease is not renewed")
		})
	}
}

// P1, P3: a SET that is executed late, because the wire was slow or the process stood still after it had read the clock, is not
// believed. Meanwhile another hold came and went whose floor is over.
func TestLateSet_IsNotBelieved(t *testing.T) {
	for _, kind := range []redistest.FaultKind{redistest.DelayRequest, redistest.DelayReply} {
		for _, delay := range []time.Duration{60 * time.Millisecond, 1500 * time.Millisecond, 2900 * time.Millisecond, 4 * time.Second} {
			bubbleOfPlain(t, kind, func(p *plainFixture) {
				p.fault.delay = delay
				name := p.fresh()
				p.fault.arm(1)
				other, _, end := p.fixture.session(p.T)
				defer end()
				var last uint64
				if kind == redistest.DelayRequest {
					lease, err := reentrant.New(other, name, signalbox.WithTokenFloor(time.Second)).Lock(p.Context())
					require.NoError(p, err)
					last = lease.Token()
					go func() {
						time.Sleep(delay / 10)
						_ = lease.Unlock()
					}()
				}
				lease, err := reentrant.New(p.Session, name).Lock(p.Context())
				require.NoError(p, err)
				require.Greater(p, lease.Token(), last)
				require.NoError(p, lease.Err())
				require.Positive(p, p.left(name))
				require.NoError(p, lease.Unlock())
			})
		}
	}
}

// P4, P5: a plain acquire whose reply is lost is undone, until its SET can leave nothing any more. Lock continues by script, under
// another ticket, and TryLock returns the error.
func TestLostReply_IsUndone(t *testing.T) {
	for _, kind := range []redistest.FaultKind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.SwallowRequest, redistest.SwallowReply,
	} {
		for _, try := range []bool{false, true} {
			bubbleOfPlain(t, kind, func(p *plainFixture) {
				name := p.fresh()
				p.fault.arm(1)
				mu := reentrant.New(p.Session, name)
				if try {
					_, err := mu.TryLock(p.Context())
					require.Error(p, err)
					require.NotErrorIs(p, err, signalbox.ErrHeld)
				} else {
					lease, err := mu.Lock(p.Context())
					require.NoError(p, err)
					require.Positive(p, p.left(name))
					time.Sleep(time.Minute)
					require.NoError(p, lease.Err())
					require.NoError(p, lease.Unlock())
				}
				<-p.fault.fired
				time.Sleep(5 * time.Second)
				require.Zero(p, p.left(name))
				requireIdle(p.T, p.Session)
			})
		}
	}
}

// P4: a caller that leaves while its plain acquire is on its way leaves nothing behind, however late the SET is executed.
func TestCallerLeavesDuringPlainAcquire_NothingIsLeft(t *testing.T) {
	for _, delay := range []time.Duration{20 * time.Millisecond, time.Second, 2900 * time.Millisecond} {
		bubbleOfPlain(t, redistest.DelayRequest, func(p *plainFixture) {
			p.fault.delay = delay
			name := p.fresh()
			p.fault.arm(1)
			ctx, cancel := context.WithTimeout(p.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := reentrant.New(p.Session, name).Lock(ctx)
			require.ErrorIs(p, err, context.DeadlineExceeded)
			time.Sleep(delay + 500*time.Millisecond)
			require.Equal(p, acquired, p.plain())
			require.Zero(p, p.left(name))
			time.Sleep(5 * time.Second)
			requireIdle(p.T, p.Session)
		})
	}
}

// P1: a SET that replied OK is not believed if the replies to the other commands do not show that the key is there, and still the
// session's: they are lost or refused, another client has written or deleted the key meanwhile, or another server replies.
func TestSetReplies_OthersDoNotConfirm_IsNotBelieved(t *testing.T) {
	refuses := func(c *server.Peer, _ string) bool {
		c.WriteError("ERR lost")
		return true
	}
	for name, arm := range map[string]func(p *plainFixture){
		"PTTL": func(p *plainFixture) { p.before["PTTL"] = refuses },
		"GET":  func(p *plainFixture) { p.before["GET"] = refuses },
		"Deleted": func(p *plainFixture) {
			p.before["PTTL"] = func(_ *server.Peer, key string) bool { return !p.redis.Del(key) }
		},
		"DeletedLater": func(p *plainFixture) {
			p.before["GET"] = func(_ *server.Peer, key string) bool { return !p.redis.Del(key) }
		},
		"Written": func(p *plainFixture) { p.before["PTTL"] = p.writeOther },
		"WrittenAfterItsEnd": func(p *plainFixture) {
			p.setEstimate(-4 * time.Second)
			p.before["PTTL"] = p.writeOther
		},
		"WrittenLater": func(p *plainFixture) { p.before["GET"] = p.writeOther },
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOfPlain(t, 0, func(p *plainFixture) {
				arm(p)
				key, at := p.fresh(), time.Now()
				lease, err := reentrant.New(p.Session, key).Lock(p.Context())
				require.NoError(p, err)
				require.Equal(p, acquired, p.plain())
				if strings.HasPrefix(name, "Written") {
					require.GreaterOrEqual(p, time.Since(at), 3*time.Second, "two had the lock")
				}
				p.requireToken(lease, at, 0)
				require.NoError(p, lease.Unlock())
				require.Zero(p, p.left(key))
			})
		})
	}
}

// writeOther lets another client write the key, as by a lease that was just acquired, and ends 3.02 s from now.
func (p *plainFixture) writeOther(_ *server.Peer, key string) bool {
	stamp := wirekit.Stamp(time.Now().UnixMicro()).Text()
	if err := p.redis.Set(key, "sb1l"+stamp+strings.Repeat("o", 41)+"r-"); err != nil {
		panic(err) // the key is no string: a mistake of the test
	}
	p.redis.SetTTL(key, 3020*time.Millisecond)
	return false
}

// P10: a server that denies a command of the plain acquire is not asked again, and no caller hears of it.
func TestPlainAcquire_IsDenied_IsNotTriedAgain(t *testing.T) {
	for _, command := range acquired {
		for _, words := range []string{"NOPERM this user has no permissions to run the command", "ERR unknown command"} {
			bubbleOfPlain(t, 0, func(p *plainFixture) {
				p.before[command] = func(c *server.Peer, _ string) bool {
					c.WriteError(words)
					return true
				}
				for range 1_200 {
					p.use(p.fresh())
				}
				require.Equal(p, acquired, p.plain())
			})
		}
	}
}

// P10: any other refusal did nothing: the enter follows, with the same ticket.
func TestPlainAcquire_IsRefused_TheEnterFollows(t *testing.T) {
	bubbleOfPlain(t, 0, func(p *plainFixture) {
		p.before["SET"] = func(c *server.Peer, _ string) bool {
			c.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
			return true
		}
		p.use(p.fresh())
		require.Equal(p, acquired, p.plain())
	})
}

// P6: after ten seconds without a reply that has the time, after a connection was closed, and after a clock of this host was set, the
// next lock is acquired by script.
func TestServerTimeIsOld_IsAskedByScript(t *testing.T) {
	for name, age := range map[string]func(p *plainFixture){
		"Silence":    func(*plainFixture) { time.Sleep(11 * time.Second) },
		"Cut":        func(p *plainFixture) { p.link.cut() },
		"SetForward": func(*plainFixture) { clock.Skew(100 * time.Millisecond) },
		"SetBack":    func(*plainFixture) { clock.Skew(-100 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOfPlain(t, 0, func(p *plainFixture) {
				defer clock.Skew(0)
				age(p)
				synctest.Wait()
				p.use(p.fresh())
				require.Empty(p, p.plain())
				p.use(p.fresh())
				require.Equal(p, acquired, p.plain())
			})
		})
	}
}

// P7: a lock whose first lease is longer, or that other goroutines of the session use, is acquired by script.
func TestPlainAcquire_IsForShortLeasesAndOneGoroutine(t *testing.T) {
	bubbleOfPlain(t, 0, func(p *plainFixture) {
		lease, err := reentrant.New(p.Session, p.fresh(), signalbox.WithFirstLease(4*time.Second)).Lock(p.Context())
		require.NoError(p, err)
		require.NoError(p, lease.Unlock())
		require.Empty(p, p.plain())
		name := p.fresh()
		for range 5 {
			go func() {
				lease, err := fair.New(p.Session, name).Lock(p.Context())
				require.NoError(p, err)
				require.NoError(p, lease.Unlock())
			}()
		}
		time.Sleep(time.Minute)
		require.LessOrEqual(p, len(p.plain()), len(acquired))
	})
}

// P7: a plain acquire that finds a key is a miss: a round trip more. At most one acquire in 16 is one. One hot lock causes no more than one.
func TestMisses_AreFew(t *testing.T) {
	bubbleOfPlain(t, 0, func(p *plainFixture) {
		misses, random := 0, rand.New(rand.NewPCG(1, 1))
		p.before["SET"] = func(_ *server.Peer, key string) bool {
			if p.redis.Exists(key) {
				misses++
			}
			return false
		}
		for _, share := range []float64{0.01, 0.5, 1} {
			misses = 0
			for n := 1; n < 1_000; n++ {
				name := p.fresh()
				if random.Float64() < share {
					require.NoError(p, p.redis.Set(locktest.Key(name), "sb1-"+wirekit.Stamp(1).Text())) // a floor of another session
				}
				p.use(name)
				require.LessOrEqual(p, misses, n/16+4, share)
			}
			require.Positive(p, misses, share)
		}
		other, _, end := p.fixture.session(p.T)
		defer end()
		p.plain()
		for range 200 {
			for _, s := range []*signalbox.Session{p.Session, other} {
				lease, err := reentrant.New(s, "hot").Lock(p.Context())
				require.NoError(p, err)
				require.NoError(p, lease.Unlock())
			}
		}
		require.LessOrEqual(p, len(p.plain()), len(acquired))
	})
}

// P1, P3: sessions whose estimates are wrong, on wires of any speed, never hold a lock both, and tokens rise.
func TestSessionsWithWrongEstimates_ExcludeEachOther(t *testing.T) {
	for seed := range uint64(redistest.Rounds(4, 20)) {
		bubbleOfPlain(t, 0, func(p *plainFixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			second := &plainFixture{fixture: p.fixture, names: 1_000}
			var end func()
			second.Session, second.link, end = p.fixture.session(p.T)
			defer end()
			for range 34 {
				second.use(second.fresh())
			}
			upTo := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
			for round := range 60 {
				name, ended := fmt.Sprint("both/", round), make(chan bool, 2)
				var holders atomic.Int32
				var last atomic.Uint64
				for _, user := range []*plainFixture{p, second} {
					user.setEstimate(upTo(3900*time.Millisecond) - 3*time.Second)                 // ahead by less than the floor is kept: see the guarantees
					user.link.latency.Store(int64(upTo(400*time.Millisecond)) * random.Int64N(2)) // a poll waits for a second
					pause := upTo(3*time.Second) * time.Duration(random.Int64N(2))
					go func() {
						time.Sleep(pause)
						lease, err := reentrant.New(user.Session, name, signalbox.WithTokenFloor(time.Second)).Lock(p.Context())
						if err == nil && lease.Err() == nil {
							if holding, before := holders.Add(1), last.Swap(lease.Token()); holding != 1 || before >= lease.Token() {
								panic(fmt.Sprintf("seed %d, round %d: %d holders, token %d after %d", seed, round, holding, lease.Token(), before))
							}
							time.Sleep(time.Until(lease.Deadline()) / 100)
							holders.Add(-1)
						}
						_ = lease.Unlock()
						ended <- true
					}()
				}
				<-ended
				<-ended
			}
		})
	}
}
