// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/shards"
)

// renewed is the password that replaces the first one. A file of users separates words by spaces.
const renewed = "the-renewed-password"

// outside is what sessions learn when they connect first, and what changes behind them.
type outside struct {
	*testing.T

	server  *redistest.Server // the server to which the address leads
	next    *redistest.Server // replica of that server, if there is a proxy
	proxy   *redistest.Proxy  // nil if the sessions connect to the server itself
	secrets *locktest.Secrets
	made    int                    // how many sessions were made
	folder  string                 // the folder of the files of clients and of servers
	token   atomic.Pointer[string] // what the function for credentials returns, unless it reads a file
}

// belief is something that a session learns at first, and that changes behind it.
type belief struct {
	slow    string                                // what the row waits for in real time, if it does
	options func(o *outside) []redistest.Option   // options of the server
	follows bool                                  // the sessions connect to a proxy
	connect func(*outside, *rueidis.ClientOption) // how the sessions connect; by the function for credentials if it is nil
	begin   func(o *outside)                      // the change, or its begin if there is an end
	denied  bool                                  // calls are denied until the end
	end     func(o *outside)
	says    []string // parts of lines in the log, one at the begin and one at the end
}

func (o *outside) path(name string) string { return filepath.Join(o.folder, name) }

// write replaces a file in one step.
func (o *outside) write(name, text string) {
	require.NoError(o, os.WriteFile(o.path("new"), []byte(text), 0o600))
	require.NoError(o, os.Rename(o.path("new"), o.path(name)))
}

// users is the file of the server's users.
func (o *outside) users(token string) {
	o.write("users", "user default on nopass ~* &* +@all\nuser "+caller+" on >"+token+" ~* &* +@all\n")
}

// issue makes a password known to the function for credentials, and a secret.
func (o *outside) issue(token string) {
	o.secrets.Add(token)
	o.token.Store(&token)
}

// grant changes the user of the sessions.
func (o *outside) grant(rules ...any) {
	o.server.MustDo(o, append([]any{"ACL", "SETUSER", caller}, rules...)...)
}

// rotate makes a password the only one.
func (o *outside) rotate(token string) { o.grant("resetpass", ">"+token) }

// kill ends the connections of the sessions.
func (o *outside) kill() { o.server.MustDo(o, "CLIENT", "KILL", "USER", caller) }

func (o *outside) byFunction(options *rueidis.ClientOption) {
	options.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: caller, Password: *o.token.Load()}, nil
	}
}

func byFile(o *outside, options *rueidis.ClientOption) {
	options.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		text, err := os.ReadFile(o.path("password"))
		return rueidis.AuthCredentials{Username: caller, Password: string(text)}, err
	}
}

// byCertificates lets the sessions connect as a URL says that names files for TLS.
func byCertificates(o *outside, options *rueidis.ClientOption) {
	o.writeCertificates()
	values := url.Values{}
	for _, name := range []string{"ca", "cert", "key"} {
		values.Set(name, o.path(name))
	}
	parsed, err := signalbox.ParseURL("rediss://127.0.0.1?" + values.Encode())
	require.NoError(o, err)
	o.byFunction(options)
	options.TLSConfig = parsed.TLSConfig
}

// writeCertificates writes the files of a client that the server accepts now.
func (o *outside) writeCertificates() {
	own := o.server.TLSConfig().Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	require.NoError(o, err)
	o.write("ca", o.server.Authority())
	o.write("cert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	o.write("key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// replicate makes a server the replica of another.
func (o *outside) replicate(replica, primary *redistest.Server) {
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(o, err)
	replica.MustDo(o, "REPLICAOF", host, port)
}

func beliefs() map[string]belief {
	return map[string]belief{
		"Function": {begin: func(o *outside) {
			o.rotate(renewed)
			o.issue(renewed)
			o.kill()
		}},
		"File": {
			slow:    "a new group grants nothing for two seconds",
			connect: byFile,
			begin: func(o *outside) {
				o.rotate(renewed)
				o.kill()
				o.write("password", renewed) // which comes late
			},
		},
		"Restart": {
			options: func(o *outside) []redistest.Option {
				o.users(callersPassword)
				return []redistest.Option{redistest.WithArgs("--dir", o.folder, "--aclfile", o.path("users"))}
			},
			begin: func(o *outside) {
				o.users(renewed)
				o.issue(renewed)
				o.server.MustDo(o, "SAVE")
				o.server.Restart()
			},
		},
		"Certificates": {
			options: func(*outside) []redistest.Option { return []redistest.Option{redistest.WithClientCertificates()} },
			connect: byCertificates,
			begin: func(o *outside) {
				o.server.ReplaceAuthority(o.T)
				o.kill()
				o.writeCertificates()
			},
		},
		"Address": {slow: "a replica connects to its primary a second after REPLICAOF", follows: true, begin: func(o *outside) {
			o.server.AwaitCopied(o, o.next)
			o.next.MustDo(o, "REPLICAOF", "NO", "ONE")
			o.proxy.SwitchTo(o.next.Addr())
			o.replicate(o.server, o.next)
			o.server, o.next = o.next, o.server
		}},
		"Scripts": {
			slow:   "a right that is missing is retried with pauses",
			begin:  func(o *outside) { o.grant("-@scripting") },
			denied: true, says: []string{"the server denies a right", "the server grants the right again"},
			end: func(o *outside) { o.grant("+@scripting") },
		},
		"Messages": {
			slow: "that no messages arrive is logged after some seconds",
			begin: func(o *outside) {
				o.grant("-subscribe")
				o.kill()
			},
			says: []string{"no unlock messages arrive", "unlock messages arrive again"},
			end:  func(o *outside) { o.grant("+subscribe") },
		},
	}
}

// P1, P2, P3, P10: nothing that was true of the first connection of a session is believed of the later ones. The session holds, waits,
// leads and owns shards meanwhile. Nothing of that is lost, no lock is held twice, and the log says each thing once, without a secret.
func TestNothingIsBelievedOfLaterConnections(t *testing.T) {
	t.Parallel()
	for name, b := range beliefs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if b.slow != "" {
				redistest.Slow(t, b.slow)
			}
			o := newOutside(t, &b)
			s, other := o.session(&b), o.session(&b)
			busy := o.busy(s, other)
			shardTokens := busy.tokens()

			b.begin(o)
			if b.end != nil {
				if b.denied {
					redistest.Await(t, "a call that is denied", func() bool { return errors.Is(o.try(other, "denied"), signalbox.ErrDenied) })
				}
				redistest.Await(t, "the begin in the log", func() bool { return o.says(b.says[0]) })
				b.end(o)
				redistest.Await(t, "the end in the log", func() bool { return o.says(b.says[1]) })
			}
			for i, session := range []*signalbox.Session{s, other} {
				redistest.Await(t, "a call that is served", func() bool { return o.try(session, fmt.Sprint("served/", i)) == nil })
			}
			require.Equal(t, shardTokens, busy.tokens(), "the shards")
			busy.requireOver(o.session(&b))
			o.requireLines()
		})
	}
}

func newOutside(t *testing.T, b *belief) *outside {
	t.Helper()
	o := &outside{T: t, secrets: locktest.NewSecrets(t), folder: t.TempDir()}
	var options []redistest.Option
	if b.options != nil {
		options = b.options(o)
	}
	o.server = redistest.Start(t, options...)
	o.issue(callersPassword)
	o.write("password", callersPassword)
	o.secrets.Add(renewed)
	o.server.MustDo(t, "ACL", "SETUSER", caller, "on", ">"+callersPassword, "~*", "&*", "+@all")
	if b.follows {
		o.next = redistest.Start(t)
		o.next.MustDo(t, "ACL", "SETUSER", caller, "on", ">"+callersPassword, "~*", "&*", "+@all")
		o.replicate(o.next, o.server)
		o.proxy = redistest.NewProxy(t, o.server.Addr())
	}
	return o
}

// session returns a session that connects as the row says.
func (o *outside) session(b *belief) *signalbox.Session {
	at := redistest.Dialer(o.server)
	if o.proxy != nil {
		at = o.proxy
	}
	o.made++
	client := at.Client(o.T, func(options *rueidis.ClientOption) {
		if b.connect != nil {
			b.connect(o, options)
		} else {
			o.byFunction(options)
		}
		locktest.Tuned(options)
	})
	s := locktest.SessionOf(o.T, client, signalbox.WithLogger(o.secrets.Logger().With("session", o.made)),
		signalbox.WithDefaults(signalbox.WithRenewedLease(longLease), signalbox.WithFirstLease(longLease)))
	o.secrets.AddSession(s)
	return s
}

// says reports whether a line of the first session's log has these words.
func (o *outside) says(words string) bool {
	for line := range strings.Lines(o.secrets.Recorded()) {
		if strings.Contains(line, words) && strings.Contains(line, "session=1 ") {
			return true
		}
	}
	return false
}

// requireLines checks that no session said anything twice.
func (o *outside) requireLines() {
	said := make(map[string]bool)
	for _, found := range regexp.MustCompile(`msg=(".*?[^\\]"|\S+) session=\d+`).FindAllString(o.secrets.Recorded(), -1) {
		require.False(o, said[found], "%s is said twice in:\n%s", found, o.secrets.Recorded())
		said[found] = true
	}
	o.Log(len(said), "lines")
}

// try locks a name once, and unlocks it.
func (o *outside) try(s *signalbox.Session, name string) error {
	lease, err := reentrant.New(s, name).TryLock(o.Context())
	if err == nil {
		err = lease.Unlock()
	}
	return o.secrets.RecordError(err)
}

// busySession is what a session does: it holds, waits, leads and owns shards.
type busySession struct {
	*outside

	held, before signalbox.Lease // the leases of the session, and of the one that has what it waits for
	granted      <-chan lockOutcome
	terms        <-chan election.Term
	members      []*shards.Member // members of the session, and of the other
}

// group is the set of the shards.
var group = shards.Names("a", "b", "c", "d")

func (o *outside) busy(s, other *signalbox.Session) *busySession {
	b := &busySession{outside: o}
	for lease, at := range map[*signalbox.Lease]*reentrant.Lock{&b.held: reentrant.New(s, "held"), &b.before: reentrant.New(other, "waited")} {
		var err error
		*lease, err = at.Lock(o.Context())
		require.NoError(o, err)
	}
	ctx, cancel := context.WithCancel(o.Context())
	granted, terms, ended := make(chan lockOutcome, 1), make(chan election.Term, 9), make(chan struct{})
	b.granted, b.terms = granted, terms
	go func() {
		lease, err := reentrant.New(s, "waited").Lock(ctx)
		granted <- lockOutcome{lease, o.secrets.RecordError(err)}
	}()
	go func() {
		defer close(ended)
		_ = o.secrets.RecordError(election.New(s, "leader").Run(ctx, func(ctx context.Context, term election.Term) error {
			terms <- term
			<-ctx.Done()
			return nil
		}))
	}()
	o.Cleanup(func() {
		cancel()
		<-ended
	})
	for _, session := range []*signalbox.Session{s, other} {
		member, err := shards.New(session, "group", group).Join(o.Context())
		require.NoError(o, err)
		b.members = append(b.members, member)
		go locktest.TakeUp(member)
	}
	redistest.Await(o, "a ticket", func() bool { return len(o.server.Keys("sb:*:queue")) > 0 })
	redistest.Await(o, "a term", func() bool { return len(terms) == 1 })
	redistest.Await(o, "shards", func() bool { return b.members[0].Owned() == 2 && b.members[1].Owned() == 2 })
	return b
}

// tokens returns the tokens of the shards that each of the members owns.
func (b *busySession) tokens() (owned []map[string]uint64) {
	for _, member := range b.members {
		require.NoError(b, member.Err())
		tokens := make(map[string]uint64)
		for _, name := range []string{"a", "b", "c", "d"} {
			if shard, owns := member.Own(name); owns {
				tokens[name] = shard.Token()
			}
		}
		owned = append(owned, tokens)
	}
	return owned
}

// requireOver checks that nothing was lost, as a session finds that connects now, and that the waiter is next.
func (b *busySession) requireOver(newcomer *signalbox.Session) {
	require.NoError(b, b.held.Err())
	require.NoError(b, b.before.Err())
	require.Empty(b, b.granted)
	for _, name := range []string{"held", "waited"} {
		require.ErrorIs(b, b.try(newcomer, name), signalbox.ErrHeld)
	}
	require.Len(b, b.terms, 1, "one term")
	term := <-b.terms
	require.NoError(b, term.Err())
	leader, err := election.New(newcomer, "leader").Leader(b.Context())
	require.NoError(b, err)
	require.Equal(b, term.Token(), leader.Token)

	require.NoError(b, b.secrets.RecordError(b.before.Unlock()))
	next := redistest.Receive(b, "the lock", b.granted)
	require.NoError(b, next.err)
	require.Greater(b, next.lease.Token(), b.before.Token())
	require.NoError(b, b.secrets.RecordError(next.lease.Unlock()))
	require.NoError(b, b.secrets.RecordError(b.held.Unlock()))
	last, err := reentrant.New(newcomer, "held").Lock(b.Context())
	require.NoError(b, b.secrets.RecordError(err))
	require.Greater(b, last.Token(), b.held.Token())
	require.NoError(b, last.Unlock())
}
