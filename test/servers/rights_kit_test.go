// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	// failoverAfter is how long no server may be silent before another takes over: no machine is as busy. Where a
	// failover is wanted here it is asked for.
	failoverAfter = 5 * time.Minute
	// watcher is the user of the sentinels, as the page calls it.
	watcher        = "watch"
	rightsPassword = "the-password-of-locks"
)

// servers is servers that a client sees as one, and their operator.
type servers struct {
	redistest.Topology

	data, watch []*redistest.Server
	admin       rueidis.Client
}

func newServers(t *testing.T, topology redistest.Topology) *servers {
	t.Helper()
	s := &servers{Topology: topology, data: topology.Servers()}
	if topology, ok := topology.(*redistest.Sentinel); ok {
		s.watch = topology.Sentinels()
		s.data = slices.DeleteFunc(s.data, func(d *redistest.Server) bool { return slices.Contains(s.watch, d) })
		for _, server := range s.watch {
			allow(t, server, watcher, users(t)[atSentinels])
		}
	}
	for _, server := range s.data {
		server.MustDo(t, "CONFIG", "SET", "acllog-max-len", "10000")
	}
	s.admin = topology.Client(t, locktest.Steady)
	return s
}

// as returns the servers as a program sees them: by the user of that name, and by watcher of its sentinels.
func (s *servers) as(user string) serversUser {
	return serversUser{locktest.User{Server: s, Name: user, Password: rightsPassword}}
}

// serversUser is the servers as a program sees them.
type serversUser struct{ locktest.User }

// Client shadows that of locktest.User.
func (s serversUser) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return s.User.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		o.ConnWriteTimeout = redistest.Patience // no wire fails here, however slow the machine is
		o.Sentinel.Username, o.Sentinel.Password = watcher, rightsPassword
	})
}

// allow gives a user its rights on one server.
func allow(t *testing.T, server *redistest.Server, user string, rights []string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", user, "on", ">" + rightsPassword}
	for _, right := range rights {
		words = append(words, right)
	}
	server.MustDo(t, words...)
}

// allow gives a user its rights on all servers with data.
func (s *servers) allow(t *testing.T, user string, rights []string) {
	t.Helper()
	for _, server := range s.data {
		allow(t, server, user, rights)
	}
}

// denials returns what the servers have noted that the user, or watcher, was denied.
func (s *servers) denials(t *testing.T, user string) (noted []string) {
	t.Helper()
	for _, server := range s.data {
		noted = append(noted, denials(t, server, user)...)
	}
	for _, server := range s.watch {
		noted = append(noted, denials(t, server, watcher)...)
	}
	return noted
}

func denials(t *testing.T, server *redistest.Server, user string) (noted []string) {
	t.Helper()
	log, _ := server.MustDo(t, "ACL", "LOG", "10000").([]any)
	for _, entry := range log {
		words, _ := entry.([]any)
		fields := make(map[string]string)
		for i := 0; i+1 < len(words); i += 2 {
			fields[fmt.Sprint(words[i])] = fmt.Sprint(words[i+1])
		}
		if fields["username"] == user {
			noted = append(noted, fields["reason"]+" "+fields["object"])
		}
	}
	return noted
}

// query sends a command of the operator's on a key, wherever that is.
func (s *servers) query(command, key string, args ...string) rueidis.RedisResult {
	return s.admin.Do(context.Background(), s.admin.B().Arbitrary(command).Keys(key).Args(args...).Build())
}

// do is ask, and fails the test if the server refuses.
func (s *servers) do(t *testing.T, command, key string, args ...string) {
	t.Helper()
	require.NoError(t, s.query(command, key, args...).Error(), "%s %s", command, key)
}

// text returns what a command on a key returns, all of it in one text, or "" if there is nothing.
func (s *servers) text(t *testing.T, command, key string, args ...string) string {
	t.Helper()
	reply, err := s.query(command, key, args...).ToAny()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(t, err, "%s %s", command, key)
	return fmt.Sprint(reply)
}

// channels returns the channels that have subscribers and any of these texts in their names.
func (s *servers) channels(t *testing.T, texts ...string) (found []string) {
	t.Helper()
	for _, server := range s.data {
		for _, which := range []string{"CHANNELS", "SHARDCHANNELS"} {
			all, _ := server.MustDo(t, "PUBSUB", which).([]any)
			for _, channel := range all {
				if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(fmt.Sprint(channel), text) }) {
					found = append(found, fmt.Sprint(channel))
				}
			}
		}
	}
	return found
}

// testedLock is what the work asks of a kind of lock.
type testedLock interface {
	locktest.Lock
	Holder(ctx context.Context) (signalbox.Holder, error)
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// queuedLock is a kind of lock whose queue can be read.
type queuedLock interface {
	Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error]
}

// rightsKind is one kind of lock.
type rightsKind struct {
	name    string
	newLock func(s *signalbox.Session, name string, options ...signalbox.LockOption) testedLock
	// crowd leaves behind what other sessions might leave, so that a waiter needs every right there is.
	crowd func(t *testing.T, s *servers, name string)
}

// rightsKinds are those that the suite runs with.
func rightsKinds() []rightsKind {
	return []rightsKind{
		{"reentrant", newOf(reentrant.New), deadBeforeAll},
		{"fair", newOf(fair.New), deadBeforeAll},
		{"rwlock", newOf(locktest.NewWriteLocker), func(t *testing.T, s *servers, name string) {
			t.Helper()
			deadInQueue(t, s, "", locktest.Keys(name).Writers(), locktest.Keys(name).RWHeartbeats())
		}},
	}
}

// newOf makes one function of every kind's New.
func newOf[L testedLock](make func(*signalbox.Session, string, ...signalbox.LockOption) L) func(
	*signalbox.Session, string, ...signalbox.LockOption) testedLock {
	return func(s *signalbox.Session, name string, options ...signalbox.LockOption) testedLock {
		return make(s, name, options...)
	}
}

// deadBeforeAll is deadInQueue for an exclusive lock, whose tickets end with a mode.
func deadBeforeAll(t *testing.T, s *servers, name string) {
	t.Helper()
	deadInQueue(t, s, "f", locktest.Keys(name).QueueKey(), locktest.Keys(name).HeartbeatsKey())
}

// deadInQueue puts a session at the head of a queue that is silent and was passed over once, and makes a
// hundred sessions known that have left for good. scripts/README.md explains the keys.
func deadInQueue(t *testing.T, s *servers, mode, line, known string) {
	t.Helper()
	const minutes = 5
	at := func(d time.Duration) string { return fmt.Sprintf("%016d", time.Now().Add(d).UnixMicro()) }
	number := strings.Repeat("0", 20)
	dead := strings.Repeat("d", 41) + mode
	// It keeps its ticket for ten seconds after its life.
	heartbeats := []string{"from", at(-time.Second) + dead, dead[:22], at(-2*time.Second) + number}
	for i := range 100 {
		heartbeats = append(heartbeats, fmt.Sprintf("%022d", i), at(-minutes*time.Minute)+number)
	}
	s.do(t, "ZADD", line, "1", dead)
	s.do(t, "HSET", known, heartbeats...)
	for _, key := range []string{line, known} {
		s.do(t, "PEXPIRE", key, fmt.Sprint((minutes * time.Minute).Milliseconds()))
	}
	t.Cleanup(func() { require.NoError(t, s.query("ZREM", line, dead).Error()) })
}

// rightsLease is that of every lease here. What cannot be released is over soon, though not while a machine stalls
// for a moment or two. A renewal is due every two seconds, and leaves four.
const rightsLease = 6 * time.Second

// whole gives holds their whole lease from the start, and not three seconds of it, for which a busy machine is suspended.
func whole() signalbox.SessionOption {
	return signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour))
}

// later is why these tests take real time.
const later = "a real server judges rights, and renewals, polls and the end of a subscription need theirs seconds after a call"

// rightsFixture is a user with certain rights, two sessions of that user, and locks of one kind that no other fixture has.
type rightsFixture struct {
	*servers

	kind    rightsKind
	name    string // the name of the user, with which the names of its locks begin
	secrets *locktest.Secrets
	view    *locktest.View
	a, b    *signalbox.Session
	ended   map[workStep]error
	givesUp bool   // the waiter is to give up: nothing is unlocked before it has
	last    string // the label of the last waiter in the queue, as Waiters returned it
}

// newRightsFixture makes the user, and names it.
func (s *servers) newFixture(t *testing.T, k rightsKind, name string, rights []string) *rightsFixture {
	t.Helper()
	f := &rightsFixture{servers: s, kind: k, name: name, secrets: locktest.NewSecrets(t), view: locktest.NewView(t, s)}
	s.allow(t, name, rights)
	f.secrets.Add(rightsPassword)
	f.a, f.b = f.session(t, "a"), f.session(t, "b")
	return f
}

func (f *rightsFixture) session(t *testing.T, name string) *signalbox.Session {
	t.Helper()
	s := locktest.Session(t, f.as(f.name), whole(), signalbox.WithLabel(name), signalbox.WithLogger(f.secrets.Logger().With("session", name)))
	f.secrets.AddSession(s)
	return s
}

// The names of the locks that a fixture works with.
func (f *rightsFixture) plain() string  { return f.name + " plain" }
func (f *rightsFixture) forced() string { return f.name + " forced" }
func (f *rightsFixture) copied() string { return f.name + " copied" }
func (f *rightsFixture) kept() string   { return f.name + " kept" }

func id(s *signalbox.Session) string { return (*session.Handle)(s).Session().ID() }

// workStep is one thing that a program does with a lock.
type workStep string

const (
	lockStep   workStep = "Lock"
	enter      workStep = "Lock again"
	try        workStep = "TryLock of a held lock"
	holder     workStep = "Holder"
	isLocked   workStep = "IsLocked"
	waiters    workStep = "Waiters" // newOf kinds that have it
	renew      workStep = "renewal"
	unlock     workStep = "Unlock while another waits"
	waitStep   workStep = "Lock of a held lock"
	leave      workStep = "Unlock without a waiter"
	force      workStep = "ForceUnlock"
	leaseError workStep = "the error of the lease after ForceUnlock"
	copies     workStep = "Lock with WithReplicas"
)

func (f *rightsFixture) receive(s workStep, err error) error {
	f.ended[s] = f.secrets.RecordError(err)
	return err
}

// work does everything but to close, as far as it can, and returns what each step ended with.
func (f *rightsFixture) work(t *testing.T) map[workStep]error {
	t.Helper()
	f.ended = make(map[workStep]error)
	mine, theirs := f.kind.newLock(f.a, f.plain(), signalbox.WithRenewedLease(rightsLease)), f.kind.newLock(f.b, f.plain(), signalbox.WithRenewedLease(rightsLease))
	ctx := locktest.Context(t)
	lease, err := mine.Lock(ctx)
	if f.receive(lockStep, err) == nil {
		again, err := mine.Lock(lease.Enter(ctx))
		require.NoError(t, f.receive(enter, err))
		require.NoError(t, again.Unlock())
	}
	_, err = theirs.TryLock(ctx)
	_ = f.receive(try, err)
	who, err := theirs.Holder(ctx)
	if f.receive(holder, err) == nil {
		require.Equal(t, "a", who.Label)
	}
	_, err = theirs.IsLocked(ctx)
	_ = f.receive(isLocked, err)
	if lease.Err() == nil {
		f.handOver(t, lease, theirs)
	}
	f.take(t)
	f.copy(t)
	return f.ended
}

// handOver makes the other session wait for a lock until it is released.
func (f *rightsFixture) handOver(t *testing.T, lease signalbox.Lease, theirs testedLock) {
	t.Helper()
	f.kind.crowd(t, f.servers, f.plain())
	waited := make(chan [2]error, 1)
	ctx := locktest.Context(t)
	go func() {
		second, err := theirs.Lock(ctx)
		both := [2]error{err}
		if err == nil {
			both[1] = second.Unlock()
		}
		waited <- both
	}()
	redistest.Await(t, "a waiter", func() bool { return f.queued(t) || len(waited) > 0 })
	if line, ok := theirs.(queuedLock); ok {
		var last signalbox.Waiter
		var failed error
		for waiter, err := range line.Waiters(ctx) {
			last, failed = waiter, err
		}
		_ = f.receive(waiters, failed)
		f.last = last.Label
	}
	// A session that is busy for long listens on a channel of its own, beside the channel of a lock that it
	// waits for.
	redistest.Await(t, "all channels", func() bool {
		return lease.Err() != nil || locktest.Channels(f.a) > 0 && (locktest.Channels(f.b) > 1 && !f.givesUp || len(waited) > 0)
	})
	before := lease.Deadline()
	redistest.Await(t, "a renewal", func() bool { return lease.Err() != nil || lease.Deadline().Sub(before) > rightsLease/20 })
	_ = f.receive(renew, lease.Err())
	_ = f.receive(unlock, lease.Unlock())
	both := <-waited
	if f.receive(waitStep, both[0]) == nil {
		_ = f.receive(leave, both[1])
	}
}

// queued reports whether the server knows that the second session waits.
func (f *rightsFixture) queued(t *testing.T) bool {
	t.Helper()
	keys := locktest.Keys(f.plain())
	mark := ""
	if f.text(t, "TYPE", keys.Holder) == "string" {
		mark = f.text(t, "GET", keys.Holder)
	}
	return strings.Contains(mark+f.text(t, "ZRANGE", keys.QueueKey(), "0", "-1")+f.text(t, "ZRANGE", keys.Writers(), "0", "-1"), id(f.b))
}

// take lets the other session take a lock by force.
func (f *rightsFixture) take(t *testing.T) {
	t.Helper()
	ctx := locktest.Context(t)
	lease, err := f.kind.newLock(f.a, f.forced(), signalbox.WithRenewedLease(rightsLease)).Lock(ctx)
	if f.secrets.RecordError(err) != nil {
		return
	}
	if f.receive(force, f.kind.newLock(f.b, f.forced()).ForceUnlock(ctx)) != nil {
		_ = f.secrets.RecordError(lease.Unlock())
		return
	}
	redistest.Receive(t, "the end of a lease that was taken", lease.Done())
	_ = f.receive(leaseError, lease.Err())
}

// copy waits for a replica. Without replicas that takes no time.
func (f *rightsFixture) copy(t *testing.T) {
	t.Helper()
	lasts, patience := rightsLease, time.Millisecond
	if len(f.data) > 1 {
		lasts, patience = 2*redistest.Patience, redistest.Patience
	}
	lease, err := f.kind.newLock(f.a, f.copied(), signalbox.WithRenewedLease(lasts), signalbox.WithReplicas(1, patience)).Lock(locktest.Context(t))
	if f.receive(copies, err) == nil {
		_ = f.secrets.RecordError(lease.Unlock())
	}
}

// close closes the sessions.
func (f *rightsFixture) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	return f.secrets.RecordError(errors.Join(f.a.Close(ctx), f.b.Close(ctx)))
}

// clean demands that nothing is held, waited for, being undone, listened to or without an end.
func (f *rightsFixture) clean(t *testing.T) {
	t.Helper()
	redistest.Await(t, "nothing is being undone", func() bool { return locktest.Undoing(f.a)+locktest.Undoing(f.b) == 0 })
	for _, name := range []string{f.plain(), f.forced(), f.copied(), f.kept()} {
		redistest.Await(t, "nothing is held", func() bool { return f.view.MustHold(t, name).ID == "" })
		keys := locktest.Keys(name)
		for _, line := range []string{keys.QueueKey(), keys.Writers(), keys.Readers()} {
			require.NotContains(t, f.text(t, "ZRANGE", line, "0", "-1"), id(f.a), "a ticket")
			require.NotContains(t, f.text(t, "ZRANGE", line, "0", "-1"), id(f.b), "a ticket")
		}
		for _, key := range []string{keys.Holder, keys.QueueKey(), keys.HeartbeatsKey(), keys.Writers(), keys.Readers(), keys.RWHeartbeats()} {
			require.NotEqual(t, "-1", f.text(t, "PTTL", key), "%s has no end", key)
		}
	}
	redistest.Await(t, "no subscription is left", func() bool {
		return len(f.channels(t, "{"+f.name, id(f.a), id(f.b))) == 0
	})
}
