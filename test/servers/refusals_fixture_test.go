// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	// longLease is a lease that outlives a test's refusals, brief one that does not, or not even until they begin.
	longLease = 5 * time.Minute
	brief     = 150 * time.Millisecond
	// steady is one that is renewed meanwhile, also on a machine that stalls for some seconds.
	steady = 6 * time.Second
	// firstWait is how long the first Lock waits that is to see a refusal. If it sees none, the next waits twice as long.
	firstWait = 50 * time.Millisecond

	caller, callersPassword = "caller", "the-caller's-password"
)

// refusalFixture is a server with an operator, whose connections are made before anything is refused, and
// with the sessions of a user, which can be made to fail apart from them.
type refusalFixture struct {
	kind                  locktest.Primitive // the kind of the locks
	server                *redistest.Server
	admin                 rueidis.Client
	view                  *locktest.View
	secrets               *locktest.Secrets
	user                  string // the user of the sessions
	holder, waiter, other *signalbox.Session
}

// newRefusalFixture returns a fixture whose sessions are those of user.
func newRefusalFixture(t *testing.T, user string, options ...redistest.Option) *refusalFixture {
	t.Helper()
	f := &refusalFixture{kind: locktest.Reentrant(), server: redistest.Start(t, options...), user: user, secrets: locktest.NewSecrets(t)}
	f.secrets.Add(callersPassword)
	const operator = "the-operator's-password"
	f.server.MustDo(t, "ACL", "SETUSER", "operator", "on", ">"+operator, "~*", "&*", "+@all")
	f.server.MustDo(t, "ACL", "SETUSER", caller, "on", ">"+callersPassword, "~*", "&*", "+@all")
	redistest.LoadScripts(t, f.server)
	desk := locktest.User{Server: f.server, Name: "operator", Password: operator}
	f.admin = desk.Client(t, func(o *rueidis.ClientOption) { o.DisableCache = true })
	f.view = locktest.NewView(t, desk)
	f.holder, f.waiter, f.other = f.session(t), f.session(t), f.session(t)
	return f
}

// session returns a session of the fixture's user.
func (f *refusalFixture) session(t *testing.T) *signalbox.Session {
	t.Helper()
	at := locktest.User{Server: f.server, Name: f.user, Password: callersPassword}
	if f.user == "default" {
		at = locktest.User{Server: f.server} // every client without a user of its own is this one
	}
	// Leases have their whole life from the start, so that they outlive refusals which begin before their first renewal.
	whole := signalbox.WithDefaults(signalbox.WithFirstLease(longLease))
	s := locktest.Session(t, at, signalbox.WithLogger(f.secrets.Logger()), whole)
	f.secrets.AddSession(s)
	return s
}

// dial opens and closes a session of the fixture's user.
func (f *refusalFixture) dial() error {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	at := url.URL{Scheme: "redis", Host: f.server.Addr()}
	if f.user != "default" {
		at.User = url.UserPassword(f.user, callersPassword)
	}
	s, err := signalbox.Dial(ctx, at.String())
	if err != nil {
		return err
	}
	return s.Close(ctx)
}

// do sends a command of the operator's.
func (f *refusalFixture) do(t *testing.T, words ...string) rueidis.RedisMessage {
	t.Helper()
	reply, err := f.admin.Do(context.Background(), f.admin.B().Arbitrary(words...).Build()).ToMessage()
	require.NoError(t, err, "%q", words)
	return reply
}

// set changes the server's configuration.
func (f *refusalFixture) set(t *testing.T, words ...string) {
	t.Helper()
	f.do(t, append([]string{"CONFIG", "SET"}, words...)...)
}

// cut ends the connections of the sessions, so that they have to come back.
func (f *refusalFixture) cut(t *testing.T) {
	t.Helper()
	f.do(t, "CLIENT", "KILL", "USER", f.user)
}

// lock takes a lock, and makes a secret of its hold.
func (f *refusalFixture) lock(t *testing.T, s *signalbox.Session, name string, life time.Duration) signalbox.Lease {
	t.Helper()
	lease, err := f.kind.New(s, name, signalbox.WithRenewedLease(life)).Lock(locktest.Context(t))
	require.NoError(t, f.secrets.RecordError(err))
	f.secrets.Add(f.view.MustHold(t, name).ID)
	return lease
}

// try is TryLock that is refused.
func (f *refusalFixture) try(s *signalbox.Session, name string) error {
	_, err := f.kind.New(s, name).TryLock(context.Background())
	return f.secrets.RecordError(err)
}

// lockOutcome is what a Lock ended with.
type lockOutcome struct {
	lease signalbox.Lease
	err   error
}

// wait locks on another goroutine, and returns when the server knows of it. The lock is held, for longer
// than all other steps of the test may take.
func (f *refusalFixture) wait(t *testing.T, s *signalbox.Session, name string) <-chan lockOutcome {
	t.Helper()
	ended := make(chan lockOutcome, 1)
	ctx, cancel := context.WithTimeout(context.Background(), longLease)
	t.Cleanup(cancel)
	go func() {
		lease, err := f.kind.New(s, name, signalbox.WithRenewedLease(longLease)).Lock(ctx)
		ended <- lockOutcome{lease, f.secrets.RecordError(err)}
	}()
	channel := proto.Grants(proto.DefaultPrefix) + (*session.Handle)(s).Session().ID()
	redistest.Await(t, "a waiter's subscription", func() bool {
		reply, err := f.server.Do("PUBSUB", "NUMSUB", channel)
		return err == nil && fmt.Sprint(reply) == fmt.Sprint([]any{channel, int64(1)})
	})
	return ended
}

// serves waits until the session is served again. A connection that was being made as the refusal ended may
// still be refused, with the calls that wait for it.
func (f *refusalFixture) serves(t *testing.T, s *signalbox.Session) {
	t.Helper()
	var lease signalbox.Lease
	redistest.Await(t, "a lock that is served", func() bool {
		var err error
		lease, err = f.kind.New(s, "served").TryLock(context.Background())
		return f.secrets.RecordError(err) == nil
	})
	require.NoError(t, lease.Unlock())
}

// clean demands that nothing is held, being undone or without an end.
func (f *refusalFixture) clean(t *testing.T) {
	t.Helper()
	redistest.Await(t, "nothing is held or being undone", func() bool {
		_, held, err := f.view.Leaks()
		return err == nil && len(held) == 0 && locktest.Undoing(f.holder)+locktest.Undoing(f.waiter)+locktest.Undoing(f.other) == 0
	})
	f.view.NoImmortals(t)
}

// refused returns what is wrong with an error that should report a refusal, or nil.
func refused(err, sentinel error, words string) error {
	switch {
	case !errors.Is(err, sentinel):
		return fmt.Errorf("not %w: %w", sentinel, err)
	case errors.Is(err, signalbox.ErrHeld):
		return fmt.Errorf("the error does not say that it is held: %w", err)
	}
	if !containsWords(err, words) {
		return fmt.Errorf("without the server's words %q: %w", words, err)
	}
	return nil
}
