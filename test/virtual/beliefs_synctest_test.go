// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	clientwire "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/shards"
)

// outside is what sessions learn when they connect first, and what changes later: an address, the password of a user, certificates, and
// what a server says of itself and lets its clients do.
type outside struct {
	*movingAddress

	mu    sync.Mutex
	token string
	fails func() (rueidis.AuthCredentials, error) // the function in place of the usual one for credentials, or nil
	reply rawReply                                // what the first server replies by itself, or nil
	hello *strings.Replacer                       // what the first server says otherwise in the replies to HELLO, or nil
	files string                                  // the folder of the client's certificate and key, if it has them
}

// newOutside returns two servers, which refuse AUTH on subscribed connections with refusesAUTH.
func newOutside(f *fixture, refusesAUTH bool) *outside {
	o := &outside{movingAddress: f.movingAddress()}
	o.over = func(conn net.Conn, to *miniredis.Miniredis, config *tls.Config) (net.Conn, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.hello != nil && to == o.redis {
			conn = &sayingConn{conn, o.hello}
		}
		if config != nil {
			conn = asTLS{conn}
		}
		return conn, nil
	}
	o.serve(o.redis, refusesAUTH)
	o.serve(o.next, refusesAUTH)
	return o
}

// rawReply returns what a server replies to a command, as bytes; "" for what it replies by itself.
type rawReply func(command string, args []string) string

// refuses returns a rawReply that refuses scripts.
func refuses(words string) rawReply {
	return func(command string, args []string) string {
		switch {
		case strings.HasPrefix(command, "EVAL"):
			return "-" + words + "\r\n"
		case command == "HELLO" && len(args) == 0: // which the embedded server does not know
			return helloOfCluster
		}
		return ""
	}
}

// isOld is the rawReply of a server that is too old.
func isOld(command string, args []string) string {
	if runs(clientwire.HelloScript, command, args) {
		return "*2\r\n:0\r\n$16\r\n1795246514376753\r\n"
	}
	return ""
}

// serve lets a server do what o says. refusesAUTH says that it refuses AUTH on subscribed connections, as all do in RESP2.
func (o *outside) serve(m *miniredis.Miniredis, refusesAUTH bool) { //nolint:revive // a fact about the server
	var subscribed sync.Map
	m.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command == "SUBSCRIBE" {
			subscribed.Store(c, true)
		}
		raw := ""
		if _, is := subscribed.Load(c); is && refusesAUTH && command == "AUTH" {
			raw = "-ERR Can't execute 'auth': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
		}
		o.mu.Lock()
		if m == o.redis && o.reply != nil {
			raw = o.reply(command, args)
		}
		o.mu.Unlock()
		if raw != "" {
			c.WriteRaw(raw)
		}
		return raw != ""
	})
}

// change lets the first server reply something else, and say something else of itself in the replies to HELLO: pairs of texts name
// of what, and what instead, which is no longer.
func (o *outside) change(reply rawReply, hello ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reply, o.hello = reply, strings.NewReplacer(hello...)
}

// restart ends all connections, and refuses new ones for a time.
func (o *outside) restart(during func()) {
	for _, link := range o.links {
		link.refuse()
	}
	during()
	for _, link := range o.links {
		link.refuses.Store(false)
	}
}

// sayingConn is a connection to a server that says something else of itself.
type sayingConn struct {
	net.Conn

	says *strings.Replacer
}

// Read implements net.Conn. The server writes a reply in one piece.
func (c *sayingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.Contains(b[:n], []byte("$7\r\nversion\r\n")) {
		n = copy(b, c.says.Replace(string(b[:n])))
	}
	return n, err
}

// rotate makes another token the only one that the servers accept.
func (o *outside) rotate(token string) {
	synctest.Wait() // the fake server reads the users without a lock
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token = token
	o.redis.RequireUserAuth("teller", token)
	o.next.RequireUserAuth("teller", token)
}

// fail lets the function for credentials do something else, or be itself again.
func (o *outside) fail(does func() (rueidis.AuthCredentials, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = does
}

func (o *outside) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails != nil {
		return o.fails()
	}
	// Not at the instant of a poll: a server that is asked for subscriptions between the end of one and its notice would be suspected.
	return rueidis.AuthCredentials{Username: "teller", Password: o.token, RefreshAfter: time.Now().Add(7017 * time.Millisecond)}, nil
}

// belief is something that a session learns at first, and that changes behind it.
type belief struct {
	mod     func(*outside, *rueidis.ClientOption)
	changes func(o *outside)
	says    []string // parts of the lines in the log meanwhile, one of each line
}

// replaced, refreshed and files are the begin of a failure of connections in the log, and its end.
var (
	replaced  = []string{"no second connection to the server can be made", "are replaced again"}
	refreshed = []string{"the function for credentials fails", "returns again"}
	files     = []string{"the files that the URL names for TLS cannot be used", "can be used again"}
	hopeless  = []string{"calls fail on this server however often they are sent", "such calls succeed again"}
	refused   = []string{"the server refuses calls", "accepts calls again"}
	revoked   = []string{"the server denies a right", "grants the right again"}
)

var (
	inCluster = []string{"$10\r\nstandalone", "$7\r\ncluster"}
	asReplica = []string{"$6\r\nmaster", "$5\r\nslave"}
)

func beliefs() map[string]belief {
	return map[string]belief{
		"nothing": {changes: func(*outside) {}},
		"half of a certificate for a while": {mod: withFiles, says: files, changes: func(o *outside) {
			o.renew("cert")
			time.Sleep(time.Minute)
			o.renew("cert", "key")
		}},
		"the token": {changes: func(o *outside) {
			for _, token := range []string{"b", "a longer one", "c"} {
				o.rotate(token)
				time.Sleep(11 * time.Second)
			}
		}},
		"the token, and the server ends all connections": {changes: func(o *outside) {
			o.rotate("b")
			o.restart(func() {})
		}},
		"the function fails for a while": {says: refreshed, changes: func(o *outside) {
			o.fail(func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("throttled") })
			o.rotate("b")
			time.Sleep(time.Minute)
			o.fail(nil)
		}},
		"the function panics for a while": {says: refreshed, changes: func(o *outside) {
			o.fail(func() (rueidis.AuthCredentials, error) { panic("no vault") })
			o.rotate("b")
			time.Sleep(time.Minute)
			o.fail(nil)
		}},
		"a fixed password, and back": {
			mod: func(_ *outside, o *rueidis.ClientOption) {
				o.AuthCredentialsFn, o.Username, o.Password = nil, "teller", "a"
			},
			says: replaced, changes: func(o *outside) {
				o.rotate("b")
				time.Sleep(time.Minute)
				o.rotate("a")
			},
		},
		"a server that restarts with its data": {changes: func(o *outside) {
			o.restart(func() {
				time.Sleep(2 * time.Second)
				run(o.redis.Server(), []string{"SCRIPT", "FLUSH"})
			})
		}},
		"a newer server, and an older one": {changes: func(o *outside) {
			for _, version := range []string{"8.6.1", "7.2.4", "8.4.0"} {
				o.restart(func() { o.change(nil, "8.4.0", version) })
				time.Sleep(11 * time.Second)
			}
		}},
		"the right to run scripts, and back": {says: revoked, changes: func(o *outside) {
			o.change(refuses("NOPERM this user has no permissions to run the 'evalsha' command"))
			time.Sleep(4 * time.Second) // less than what is left of a term
			o.change(nil)
		}},
		"the right to the keys, and back": {says: revoked, changes: func(o *outside) {
			o.change(refuses("NOPERM No permissions to access a key"))
			time.Sleep(4 * time.Second) // less than what is left of a term
			o.change(nil)
		}},
		"a primary that becomes a replica, and back": {changes: func(o *outside) {
			o.change(refuses("READONLY You can't write against a read only replica."), asReplica...)
			time.Sleep(2 * time.Second)
			o.change(nil)
		}},
		"a node of a cluster, and back": {changes: func(o *outside) {
			o.restart(func() { o.change(nil, inCluster...) })
			time.Sleep(30 * time.Second)
			o.change(nil)
		}},
	}
}

// renew writes files of the client: those of another certificate.
func (o *outside) renew(files ...string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(o, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	require.NoError(o, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(o, err)
	for _, name := range files {
		block := &pem.Block{Type: "CERTIFICATE", Bytes: signed}
		if name == "key" {
			block = &pem.Block{Type: "PRIVATE KEY", Bytes: secret}
		}
		require.NoError(o, os.WriteFile(filepath.Join(o.files, name), pem.EncodeToMemory(block), 0o600))
	}
}

// asTLS is a connection that says that it has TLS.
type asTLS struct{ net.Conn }

// ConnectionState returns the state of a connection that has TLS.
func (asTLS) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }

// withFiles lets a client connect as a URL says that names files. The connections only say that they have TLS.
func withFiles(o *outside, options *rueidis.ClientOption) {
	if o.files == "" {
		o.files = o.TempDir()
		o.renew("cert", "key")
	}
	parsed, err := signalbox.ParseURL("rediss://127.0.0.1?cert=" + o.files + "/cert&key=" + o.files + "/key")
	require.NoError(o, err)
	options.TLSConfig = parsed.TLSConfig
}

// What changes behind a session that holds, waits, leads and owns shards is used from then on: when the address leads to another
// server afterwards, and the former one serves as before, the session follows. Nothing is lost, no lock is held twice, and the log says
// no more than the row names. What cannot be had is named in the log, once, and once when it is over.
func TestWhatChangesIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range beliefs() {
		for _, resp2 := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/RESP2", false: "/RESP3"}[resp2], func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					o := newOutside(f, resp2)
					o.rotate("a")
					logger, lines := logged()
					open := func(logger *slog.Logger) *signalbox.Session {
						return o.session(func(options *rueidis.ClientOption) {
							options.AlwaysRESP2, options.AuthCredentialsFn = resp2, o.credentials
							if c.mod != nil {
								c.mod(o, options)
							}
						}, signalbox.WithLogger(logger))
					}
					others := slog.New(slog.DiscardHandler)
					idle := open(others)
					require.NoError(f, locked(f.Context(), idle))
					s := busy(o, open(logger), open(others))
					before := len(lines.String())
					c.changes(o)
					time.Sleep(20 * time.Second)
					requireLines(f, withoutMessages(lines.String()[before:]), c.says)
					s.requireUntouched()

					o.failOver(false)
					time.Sleep(40 * time.Second)
					s.requireUntouched()
					newcomer := open(others)
					atOnce(f.T, reentrant.New(newcomer, "since"))
					s.requireHeldOnce(idle, "since") // the first call after an idle time
					s.requireOver(newcomer)
				})
			})
		}
	}
}

// withoutMessages leaves out the lines that say whether unlock messages arrive: after a restart it depends on the pauses between attempts
// whether they are away for more than five seconds.
func withoutMessages(log string) (rest string) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "unlock messages arrive") {
			rest += line
		}
	}
	return rest
}

// requireLines checks that each of these parts is in one line of a log, which has no further lines.
func requireLines(f *fixture, log string, parts []string) {
	f.Helper()
	synctest.Wait()
	require.Equal(f, len(parts), strings.Count(log, "\n"), log)
	for _, part := range parts {
		require.Equal(f, 1, strings.Count(log, part), log)
	}
}

// busySession is a session that holds, waits, leads and owns shards, and what it waits for.
type busySession struct {
	*outside

	held, before signalbox.Lease
	granted      chan signalbox.Lease
	member       *shards.Member
	terms        chan election.Term
}

// busy makes s busy. other holds what s waits for.
func busy(o *outside, s, other *signalbox.Session) *busySession {
	b := &busySession{outside: o, granted: make(chan signalbox.Lease, 1), terms: make(chan election.Term, 9)}
	var err error
	b.held, err = reentrant.New(s, "held").Lock(o.Context())
	require.NoError(o, err)
	b.before, err = reentrant.New(other, "waited").Lock(o.Context())
	require.NoError(o, err)
	go func() {
		if lease, err := reentrant.New(s, "waited").Lock(o.Context()); err == nil {
			b.granted <- lease
		}
	}()
	ctx, cancel := context.WithCancel(o.Context())
	o.ends = append(o.ends, cancel)
	go func() {
		_ = election.New(s, "leader").Run(ctx, func(ctx context.Context, term election.Term) error {
			b.terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	b.member, err = shards.New(s, "group", shards.Count(2)).Join(o.Context())
	require.NoError(o, err)
	go locktest.TakeUp(b.member)
	time.Sleep(20 * time.Second)
	return b
}

// requireUntouched checks that nothing was lost.
func (b *busySession) requireUntouched() {
	synctest.Wait()
	require.NoError(b, b.held.Err())
	require.NoError(b, b.before.Err())
	require.Empty(b, b.granted)
	require.Len(b, b.terms, 1, "one term")
	require.NoError(b, b.member.Err())
	require.Equal(b, 2, b.member.Owned())
}

// requireHeldOnce checks that another session gets none of these locks.
func (b *busySession) requireHeldOnce(newcomer *signalbox.Session, names ...string) {
	for _, name := range names {
		require.ErrorIs(b, no(reentrant.New(newcomer, name).TryLock(b.Context())), signalbox.ErrHeld)
	}
}

// requireOver checks that the server to which the address leads knows of it all, as a session finds that connects now, and that the
// waiter is next, by a message.
func (b *busySession) requireOver(newcomer *signalbox.Session) {
	b.requireHeldOnce(newcomer, "held", "waited")
	leader, err := election.New(newcomer, "leader").Leader(b.Context())
	require.NoError(b, err)
	require.NotNil(b, leader)
	released := time.Now()
	require.NoError(b, b.before.Unlock())
	require.NoError(b, (<-b.granted).Unlock())
	require.Less(b, time.Since(released), 10*time.Millisecond, "by a message")
	require.NoError(b, b.held.Unlock())
}

// What a server takes away ends the calls that cannot succeed, with the reason. The log names it once, and once when it is over. Nothing
// that is held is lost by that.
func TestWhatIsTakenAwayIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply rawReply
		hello []string
		want  error
		says  []string
	}{
		"Rights":  {refuses("NOPERM this user has no permissions to run the 'evalsha' command"), nil, signalbox.ErrDenied, revoked},
		"Cluster": {refuses("MOVED 1 10.0.0.1:6379"), inCluster, signalbox.ErrUnsupported, hopeless},
		"Older":   {isOld, []string{"8.4.0", "5.0.7"}, signalbox.ErrOldServer, hopeless},
		"Replica": {refuses("READONLY You can't write against a read only replica."), asReplica, signalbox.ErrRefused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				o := newOutside(f, false)
				logger, lines := logged()
				s := o.session(nil, signalbox.WithLogger(logger))
				held := atOnce(f.T, reentrant.New(s, "held"))
				time.Sleep(10 * time.Second)
				o.restart(func() { o.change(c.reply, c.hello...) })
				for range 8 {
					time.Sleep(time.Second)
					require.ErrorIs(f, no(reentrant.New(s, "a").TryLock(f.Context())), c.want)
				}
				o.restart(func() { o.change(nil) })
				time.Sleep(20 * time.Second) // with renewals, if one of them was the first to fail
				for range 50 {               // a lock is acquired by one of two scripts, and the one that failed first has to succeed
					require.NoError(f, locked(f.Context(), s))
				}
				require.NoError(f, held.Err())
				requireLines(f, withoutMessages(lines.String()), c.says)
			})
		})
	}
}

// An older server that takes over the address is found by the version that it names, and the error says so. When the address leads
// back, calls succeed again.
func TestAnOlderServerThatTakesOverIsNamed(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		a := f.movingAddress()
		a.next.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			switch {
			case command == "HELLO":
				c.WriteRaw("*4\r\n$5\r\nproto\r\n:2\r\n$7\r\nversion\r\n$5\r\n5.0.7\r\n")
			case runs(clientwire.HelloScript, command, args):
				c.WriteRaw("*2\r\n:0\r\n$16\r\n1795246514376753\r\n")
			default:
				return false
			}
			return true
		})
		s := a.session(nil, quiet)
		try := func() error { return locked(f.Context(), s) }
		lasting := func(want error) {
			for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
				if err := try(); errors.Is(err, want) || err == nil && want == nil {
					return
				}
			}
			require.ErrorIs(f, try(), want)
		}
		lasting(nil)
		a.moved.Store(true)
		lasting(signalbox.ErrOldServer)
		require.ErrorIs(f, try(), signalbox.ErrOldServer)
		a.moved.Store(false)
		lasting(nil)
		require.NoError(f, try())
	})
}

// A session asks nothing because the server of another session has another version.
func TestTheVersionOfAnotherServerCostsNothing(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		require.NoError(f, locked(f.Context(), s))
		time.Sleep(time.Minute) // the lock's key and its subscription are gone
		before := f.scripts.Load()
		require.NoError(f, locked(f.Context(), s))
		usual := f.scripts.Load() - before
		o := &outside{movingAddress: f.movingAddress()}
		o.over = func(conn net.Conn, _ *miniredis.Miniredis, _ *tls.Config) (net.Conn, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			return &sayingConn{conn, o.hello}, nil
		}
		o.change(nil)
		o.moved.Store(true)
		other := o.session(nil, quiet)
		require.NoError(f, locked(f.Context(), other))
		o.restart(func() { o.change(nil, "8.4.0", "8.6.1") })
		time.Sleep(time.Minute)
		require.NoError(f, locked(f.Context(), other))
		before = f.scripts.Load()
		require.NoError(f, locked(f.Context(), s))
		require.Equal(f, usual, f.scripts.Load()-before)
	})
}

// Two sessions at one address have functions for credentials of their own. Only the session whose function fails logs that: it is
// the one whose connections are concerned. So it is if the options were tuned already.
func TestOnlyTheSessionWhoseConnectionsFailLogsThat(t *testing.T) {
	t.Parallel()
	for _, tuned := range []bool{false, true} {
		bubbleOfUsers(t, func(f *fixture) {
			o := newOutside(f, false)
			o.rotate("a")
			right := func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				return rueidis.AuthCredentials{Username: "teller", Password: "a"}, nil
			}
			dial := func(credentials func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)) (*signalbox.Session, *logLines) {
				logger, lines := logged()
				options := rueidis.ClientOption{
					InitAddress: []string{"shared:1"}, ForceSingleClient: true, AlwaysRESP2: true, AuthCredentialsFn: credentials,
					DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return f.redis.Dial() },
				}
				if tuned {
					signalbox.Tune(&options)
				}
				s, err := signalbox.DialWith(f.Context(), options, signalbox.WithLogger(logger))
				require.NoError(f, err)
				f.Cleanup(func() { _ = s.Close(locktest.Ended()) })
				return s, lines
			}
			failing, says := dial(o.credentials)
			other, silent := dial(right)
			use := func() {
				for range 150 {
					require.NoError(f, locked(f.Context(), failing))
					require.NoError(f, locked(f.Context(), other))
					time.Sleep(100 * time.Millisecond)
				}
			}
			use()
			o.fail(func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("throttled") })
			use()
			o.fail(nil)
			use()
			requireLines(f, says.String(), refreshed)
			requireLines(f, silent.String(), nil)
		})
	}
}
