// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
		immortal, held, err := f.view.Leaks()
		require.Empty(t, immortal, "keys without an end")
		return err == nil && len(held) == 0 && locktest.Undoing(f.holder)+locktest.Undoing(f.waiter)+locktest.Undoing(f.other) == 0
	})
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

// refusalCase is one way in which a server refuses.
type refusalCase struct {
	user     string // the user whose sessions are made to fail; caller if it is empty
	options  func(t *testing.T) []redistest.Option
	begin    func(t *testing.T, f *refusalFixture)
	end      func(t *testing.T, f *refusalFixture)
	sentinel error
	words    string // the text in every refused call's error
	dial     string // the text of the error of Dial, if it is another one
	// passes: renewals and releases are served all the same.
	passes bool
	// blind says that no client can read keys meanwhile.
	blind bool
}

// dump is the file in which a server saves; a folder of this name prevents that.
const dump = "dump.rdb"

func refusals() map[string]refusalCase {
	return map[string]refusalCase{
		"OOM": {
			begin:    func(t *testing.T, f *refusalFixture) { f.set(t, "maxmemory", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "maxmemory", "0") },
			sentinel: signalbox.ErrRefused, words: "OOM command not allowed", passes: true,
		},
		"MISCONF": {
			options: func(t *testing.T) []redistest.Option {
				return []redistest.Option{redistest.WithArgs("--dir", t.TempDir(), "--dbfilename", dump, "--save", "36000 1000000")}
			},
			begin: func(t *testing.T, f *refusalFixture) {
				reply := f.do(t, "CONFIG", "GET", "dir")
				setting, err := reply.AsStrMap()
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(filepath.Join(setting["dir"], dump, "in the way"), 0o700))
				f.do(t, "BGSAVE")
				redistest.Await(t, "a save that fails", func() bool {
					info, err := f.server.Do("INFO", "persistence")
					return err == nil && strings.Contains(fmt.Sprint(info), "rdb_last_bgsave_status:err")
				})
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "stop-writes-on-bgsave-error", "no") },
			sentinel: signalbox.ErrRefused, words: "MISCONF",
		},
		"NOREPLICAS": {
			begin:    func(t *testing.T, f *refusalFixture) { f.set(t, "min-replicas-to-write", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "min-replicas-to-write", "0") },
			sentinel: signalbox.ErrRefused, words: "NOREPLICAS Not enough good replicas",
		},
		"READONLY": {
			begin:    func(t *testing.T, f *refusalFixture) { f.do(t, "REPLICAOF", "127.0.0.1", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "REPLICAOF", "NO", "ONE") },
			sentinel: signalbox.ErrRefused, words: "READONLY You can't write", dial: "it is a replica",
		},
		"LOADING": {
			begin: load,
			// The rest is loaded at once.
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "key-load-delay", "0") },
			sentinel: signalbox.ErrRefused, words: "LOADING", blind: true,
		},
		"BUSY": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "busy-reply-threshold", "20")
				inTheBackground(t, f, "EVAL", "while true do end", 0)
				redistest.Await(t, "a busy server", func() bool {
					_, err := f.server.Do("GET", "x")
					return err != nil && strings.HasPrefix(err.Error(), "BUSY")
				})
			},
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "SCRIPT", "KILL") },
			sentinel: signalbox.ErrRefused, words: "BUSY", blind: true,
		},
		"MaxClients": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "maxclients", "1")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "maxclients", "1000") },
			sentinel: signalbox.ErrRefused, words: "max number of clients reached",
		},
		"NOAUTH": {
			user: "default",
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "requirepass", "a password that no client knows")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "requirepass", "") },
			sentinel: signalbox.ErrDenied, words: "NOAUTH",
		},
		"PasswordRotated": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.do(t, "ACL", "SETUSER", caller, "resetpass", ">another password")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, ">"+callersPassword) },
			sentinel: signalbox.ErrDenied, words: "WRONGPASS",
		},
		"ScriptsDenied": {
			begin:    func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, "-eval", "-evalsha") },
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, "+eval", "+evalsha") },
			sentinel: signalbox.ErrDenied, words: "'evalsha' command (grant +evalsha)",
		},
	}
}

func noOptions(*testing.T) []redistest.Option { return nil }

// load makes the server load its keys, slowly: three hundred a second at most, for longer than all that is tried meanwhile.
func load(t *testing.T, f *refusalFixture) {
	t.Helper()
	f.do(t, "DEBUG", "POPULATE", "30000", "filler", "100")
	f.set(t, "loading-process-events-interval-bytes", "1024", "key-load-delay", "3000")
	inTheBackground(t, f, "DEBUG", "RELOAD")
	redistest.Await(t, "a loading server", func() bool {
		_, err := f.server.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
}

// inTheBackground sends a command whose reply comes after the refusal has ended.
func inTheBackground(t *testing.T, f *refusalFixture, words ...any) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = f.server.Do(words...) // killed, or too slow for Do
	}()
	t.Cleanup(func() { <-done })
}
