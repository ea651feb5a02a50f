// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/shards"
)

// fault is what a hook, or another function of a program, does that it should not. It is called with the session.
type fault struct {
	name string
	do   func(s *signalbox.Session)
	lags time.Duration // by how much other observers may be called later
	ends bool          // the session is closed from then on
}

// faults are what functions of a program may do.
func faults() []fault {
	return []fault{
		{name: "panics", do: func(*signalbox.Session) { panic("a bug") }},
		{name: "exits", do: func(*signalbox.Session) { runtime.Goexit() }},
		{name: "is slow", do: func(*signalbox.Session) { time.Sleep(15 * time.Second) }, lags: 10 * time.Millisecond},
		{name: "locks", do: func(s *signalbox.Session) {
			if lease, err := reentrant.New(s, "of a hook").Lock(context.Background()); err == nil {
				_ = lease.Unlock()
			}
		}, lags: 10 * time.Millisecond},
		{name: "closes", do: func(s *signalbox.Session) { _ = s.Close(context.Background()) }, lags: 10 * time.Millisecond, ends: true},
		{name: "forces", do: func(s *signalbox.Session) { _ = reentrant.New(s, "of a hook").ForceUnlock(context.Background()) }, lags: 10 * time.Millisecond},
	}
}

// badHooks has all hooks, and the one that is named has a fault, once. It remembers when it was called.
type badHooks struct {
	hook  string
	fault func()
	done  atomic.Bool
	at    time.Time
}

// observer returns the hooks. Those that return a context return one without the values of the call.
func (b *badHooks) observer() signalbox.Observer {
	var o signalbox.Observer
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v := v.Field(i)
		if v.Kind() != reflect.Func {
			continue
		}
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) (results []reflect.Value) {
			for n := range v.Type().NumOut() {
				results = append(results, reflect.New(v.Type().Out(n)).Elem())
				results[n].Set(reflect.ValueOf(context.Background()))
			}
			if name == b.hook && !b.done.Swap(true) {
				b.at = time.Now()
				b.fault()
			}
			return results
		}))
	}
	return o
}

// goodHooks notes what it was called with, and when, and that each of its calls has its own context.
type goodHooks struct {
	recordedEvents

	members memberEvents
	at      map[string]time.Time // the first call of each hook
}

func (g *goodHooks) observer(t *testing.T) signalbox.Observer {
	t.Helper()
	o, members := g.recordedEvents.observer(t), g.members.observer()
	o.Names = true
	o.MemberJoined, o.MemberLeft, o.ShardGranted = members.MemberJoined, members.MemberLeft, members.ShardGranted
	o.ShardDraining, o.ShardSlow, o.ShardReleased = members.ShardDraining, members.ShardSlow, members.ShardReleased
	g.at = make(map[string]time.Time)
	var mu sync.Mutex
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v := v.Field(i)
		if v.Kind() != reflect.Func {
			continue
		}
		hook := reflect.ValueOf(v.Interface())
		v.Set(reflect.MakeFunc(v.Type(), func(in []reflect.Value) []reflect.Value {
			mu.Lock()
			if g.at[name].IsZero() {
				g.at[name] = time.Now()
			}
			mu.Unlock()
			return hook.Call(in)
		}))
	}
	return o
}

// useLocks lets every hook about locks be called, but for Unconfirmed. Each call has a goroutine of its own.
func useLocks(f *fixture, s *signalbox.Session, link *wire) {
	apart := func(call func()) {
		go call()
		time.Sleep(20 * time.Second) // a fault has passed
	}
	a := reentrant.New(s, "a")
	hold := func(during func()) {
		if lease, err := a.Lock(f.Context()); err == nil {
			time.Sleep(2 * time.Second) // it is renewed
			during()
			_ = lease.Unlock()
		}
	}
	apart(func() { hold(func() {}) })
	apart(func() {
		hold(func() {
			go func() { _, _ = a.TryLock(f.Context()) }()
			link.cut() // also the subscription
			time.Sleep(13 * time.Second)
		})
	})
	apart(func() { _, _ = a.Lock(f.Context()) })
	apart(func() { _ = a.ForceUnlock(f.Context()) })
}

// useShards lets every hook about members and shards be called.
func useShards(f *fixture, s *signalbox.Session, _ *wire) {
	ctx, cancel := context.WithTimeout(f.Context(), 3*time.Second)
	defer cancel()
	_ = shards.New(s, "a", shards.Names("x")).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
		<-ctx.Done()
		time.Sleep(2 * time.Minute) // slow
		return nil
	})
	time.Sleep(time.Minute)
}

// Each observer has every hook called as often, in the same order, and within 10 ms, whatever a hook of another observer does, and
// whichever of them is the first. Then nothing is held, and Close ends.
func TestAFaultOfOneObserverCostsNoOther(t *testing.T) {
	t.Parallel()
	var hooks []string
	for i := range reflect.TypeFor[signalbox.Observer]().NumField() {
		if field := reflect.TypeFor[signalbox.Observer]().Field(i); field.Type.Kind() == reflect.Func && field.Name != "Unconfirmed" {
			hooks = append(hooks, field.Name)
		}
	}
	for n, fault := range faults() {
		for i, hook := range hooks {
			orders := []bool{true, false}
			if redistest.Quick() { // a quarter
				if orders = orders[:1+i/2%2][i/2%2:]; (i+n)%2 == 0 {
					continue
				}
			}
			for _, badFirst := range orders {
				name := fault.name + "/" + hook + map[bool]string{true: "/first", false: "/last"}[badFirst]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					bubbleOfUsers(t, func(f *fixture) {
						var good goodHooks
						var s *signalbox.Session
						bad := &badHooks{hook: hook, fault: func() { fault.do(s) }}
						all := []signalbox.Observer{bad.observer(), good.observer(f.T)}
						if !badFirst {
							slices.Reverse(all)
						}
						logger, _ := logged()
						var link *wire
						s, link, _ = f.session(f.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observers(all...)))
						use, required := useLocks, requireBalanced
						if strings.HasPrefix(hook, "Member") || strings.HasPrefix(hook, "Shard") {
							use, required = useShards, requireMembers
						}
						for range 2 { // once with the fault, and once without
							use(f, s, link)
						}
						synctest.Wait() // for hooks that were called
						require.NotZero(f, bad.at, "the fault occurred")
						require.LessOrEqual(f, good.at[hook].Sub(bad.at), fault.lags)
						ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
						defer cancel()
						require.NoError(f, s.Close(ctx))
						synctest.Wait()
						required(f, &good, fault.ends)
						require.Zero(f, f.left("a"), "no lock is left that no goroutine knows")
					})
				})
			}
		}
	}
}

// requireBalanced requires that each call that began, and each lease, has an end, and that there was one of all unless the session was closed.
func requireBalanced(f *fixture, g *goodHooks, closed bool) { //nolint:revive // a fact about the session
	hooks, _ := g.took()
	count := func(hook string) (n int) {
		for name := range strings.FieldsSeq(hooks) {
			if name == hook {
				n++
			}
		}
		return n
	}
	require.Equal(f, count("waiting"), count("acquired")+count("refused"), hooks)
	require.Equal(f, count("acquired"), count("released")+count("lost"), hooks)
	if closed {
		return
	}
	require.Equal(f, count("polling"), count("subscribed"), hooks)
	for _, hook := range []string{"waiting", "acquired", "refused", "released", "lost", "forced", "renewed", "polling"} {
		require.Positive(f, count(hook), "%s: %s", hook, hooks)
	}
}

// requireMembers requires that two members had the shard one after the other, or that each beginning has an end if the session was closed.
func requireMembers(f *fixture, g *goodHooks, closed bool) { //nolint:revive // a fact about the session
	once := []string{"joined", "granted x", "draining x left", "slow x left", "released x left", "member left"}
	events := g.members.take()
	if !closed {
		require.Equal(f, append(once, once...), events)
		return
	}
	all := strings.Join(events, ",") + ","
	require.Equal(f, strings.Count(all, "joined,"), strings.Count(all, "member "), all)
	require.Equal(f, strings.Count(all, "granted x,"), strings.Count(all, "released x"), all)
}

// Of two parties that use one session at the same time, the second one succeeds after any fault of a function, an iteration or a hook of the first one.
func TestAFaultOfOneCallerCostsNoOther(t *testing.T) {
	t.Parallel()
	type use = func(ctx context.Context, s *signalbox.Session, do func()) error
	for place, use := range map[string]use{
		"function of a once": func(ctx context.Context, s *signalbox.Session, do func()) error {
			_, _, err := once.New(s, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
				do()
				return nil, nil
			})
			return err
		},
		"hook of a once": func(ctx context.Context, s *signalbox.Session, do func()) error {
			_, _, err := once.New(s, "a").Do(context.WithValue(ctx, hookKey{}, do), func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
			return err
		},
		"hook of a Locker": func(ctx context.Context, s *signalbox.Session, do func()) error {
			l := reentrant.New(s, "a").Locker(context.WithValue(ctx, hookKey{}, do))
			l.Lock()
			defer l.Unlock()
			return nil
		},
		"function of a leader": func(ctx context.Context, s *signalbox.Session, do func()) error {
			return election.New(s, "a").Run(ctx, func(context.Context, election.Term) error {
				do()
				return nil
			})
		},
		"observer of a leader": func(ctx context.Context, s *signalbox.Session, do func()) error {
			for range election.New(s, "a").Observe(ctx) {
				do()
				return nil
			}
			return ctx.Err()
		},
		"list of waiters": func(ctx context.Context, s *signalbox.Session, do func()) error {
			lease, err := fair.New(s, "a").Lock(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = lease.Unlock() }()
			waiting, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				if lease, err := fair.New(s, "a").Lock(waiting); err == nil { // in the instant in which waiting ends
					_ = lease.Unlock()
				}
			}()
			time.Sleep(time.Second)
			for range fair.New(s, "a").Waiters(ctx) {
				do()
				return nil
			}
			return signalbox.ErrNotHeld
		},
	} {
		for _, fault := range faults() {
			t.Run(place+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					logger, _ := logged()
					s := f.user(signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
						Waiting: func(ctx context.Context, _ signalbox.Event) context.Context {
							if do, _ := ctx.Value(hookKey{}).(func()); do != nil {
								do()
							}
							return ctx
						},
					})).Session
					go func() {
						defer func() { _ = recover() }()
						_ = use(f.Context(), s, func() {
							time.Sleep(time.Second) // the other one comes meanwhile
							fault.do(s)
						})
					}()
					synctest.Wait()
					ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
					defer cancel()
					if err := use(ctx, s, func() {}); !fault.ends || !errors.Is(err, signalbox.ErrClosed) {
						require.NoError(f, err)
					}
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

type hookKey struct{}
