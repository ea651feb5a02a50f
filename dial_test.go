// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P7: a session that is made from a client sends nothing until it is asked for something.
func TestNewSessionSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, signalbox.Tune)
	require.Empty(t, server.SentBy(func() {
		s := signalbox.NewSession(client, signalbox.WithPolling(), signalbox.WithPrefix("x:"), nil)
		require.NoError(t, reentrant.New(s, "a").Check())
		require.NoError(t, s.Close(t.Context()))
	}))
}

func TestDialMakesASessionThatWorks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := signalbox.Dial(t.Context(), server.URL(), signalbox.WithPrefix("x:"))
	require.NoError(t, err)
	lease := locktest.Must(t, reentrant.New(s, "a").Lock)
	require.Equal(t, []string{"x:{a}:lock"}, server.Keys("*"))
	require.NoError(t, lease.Unlock())
	require.NoError(t, s.Close(t.Context()))
}

// What no URL can say is said by the options of the client: here a dialer.
func TestDialWithTheOptionsOfTheClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := rueidis.ClientOption{
		InitAddress: []string{"elsewhere.invalid:1"}, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", server.Addr())
		},
	}
	s, err := signalbox.DialWith(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, locktest.Must(t, reentrant.New(s, "a").Lock).Unlock())
	require.NoError(t, s.Close(t.Context()))
}

// P10: what no server accepts is an error before anything is sent, and names the option.
func TestDialWithRefusesWhatNoServerHas(t *testing.T) {
	t.Parallel()
	_, err := signalbox.DialWith(nil, rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}) //nolint:staticcheck // nil is tested
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	at := func(address string) rueidis.ClientOption { return rueidis.ClientOption{InitAddress: []string{address}} }
	byDialer := func(addresses ...string) rueidis.ClientOption {
		return rueidis.ClientOption{InitAddress: addresses, DialCtxFn: func(_ context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return nil, errors.New(address + ": was called")
		}}
	}
	named := func(name, sentinel string) rueidis.ClientOption {
		o := at("127.0.0.1:1")
		o.ClientName, o.Sentinel.ClientName = name, sentinel
		return o
	}
	for _, c := range []struct {
		options rueidis.ClientOption
		text    string
	}{
		{rueidis.ClientOption{}, "InitAddress is empty"},
		{at("127.0.0.1"), "address 1 of 1: it is not host:port"},
		{at("127.0.0.1:"), "is not host:port"},
		{at("127.0.0.1:0"), "is not host:port"},
		{at("127.0.0.1:99999"), "is not host:port"},
		{at("zecret,127.0.0.1:1"), "is not host:port"},
		{at("redis://:zecret@127.0.0.1:1"), "it is a URL: give it to signalbox.Dial"},
		{byDialer("redis://:zecret@127.0.0.1:1"), "it is a URL: give it to signalbox.Dial"},
		{at("shop.example:6380,password=zecret=,ssl=True"), "it has an = or an @"},
		{at("shop.example,password=zecret:6380"), "it has an = or an @"},
		{byDialer("127.0.0.1:1", "shop.example:6380,password=zecret"), "address 2 of 2: it has an = or an @"},
		{byDialer("zecret@127.0.0.1:1"), "it has an = or an @"},
		{named("my service", ""), "ClientName (client_name in a URL) has a blank"},
		{named("", "a\nb"), "Sentinel.ClientName"},
	} {
		_, err := signalbox.DialWith(t.Context(), c.options)
		require.ErrorIs(t, err, signalbox.ErrBadOption, c.text)
		require.ErrorContains(t, err, c.text)
		require.NotContains(t, err.Error(), "zecret")
		if c.options.DialCtxFn == nil || len(c.options.InitAddress) > 1 { // of several addresses a client dials any first
			continue
		}
		signalbox.Tune(&c.options)
		_, err = rueidis.NewClient(c.options)
		require.ErrorIs(t, err, signalbox.ErrBadOption, c.text)
		require.NotContains(t, err.Error(), "zecret")
	}
	for _, name := range []string{"primary", "/run/user@1/a=b", "./a=b", "@signalbox/test"} { // a dialer knows what these are
		_, err := signalbox.DialWith(t.Context(), byDialer(name))
		require.NotErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "was called")
	}
}

// P10: no server at all is an error of Dial, which says where none was found.
func TestDialReportsThatNoServerListens(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.Refuse()
	s, err := signalbox.Dial(t.Context(), proxy.URL())
	require.Nil(t, s)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "dial", refused.Op)
	require.ErrorContains(t, err, "signalbox: dial: ")
	require.ErrorContains(t, err, proxy.Addr())
}

// P10: a bad URL is an error that does not repeat its password.
func TestDialRefusesABadURLWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://localhost:6379", "redis://:secret@local host:1", "redis://u:secret@h:1/x", "redis://u:sec%zzret@h:1", "redis://u:sec/secret@h:1",
		"redis://h:6379/99999999999999999999",
	} {
		s, err := signalbox.Dial(t.Context(), url)
		require.Nil(t, s, url)
		require.ErrorIs(t, err, signalbox.ErrBadOption, url)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "sec%zzret")
		if strings.Contains(url, "sec") {
			require.ErrorContains(t, err, "the zone of an address write %25")
		}
		_, sameErr := signalbox.ParseURL(url)
		require.ErrorIs(t, sameErr, signalbox.ErrBadOption, url)
		require.NotContains(t, sameErr.Error(), "secret")
	}
}

func TestParseURLMakesTheOptionsOfDial(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options, err := signalbox.ParseURL(server.URL() + "?client_name=parsed&write_timeout=3s")
	require.NoError(t, err)
	require.Equal(t, []any{[]string{server.Addr()}, "parsed", 3 * time.Second}, []any{options.InitAddress, options.ClientName, options.ConnWriteTimeout})
	s, err := signalbox.DialWith(t.Context(), options)
	require.NoError(t, err)
	require.Contains(t, server.MustDo(t, "CLIENT", "LIST"), "name=parsed")
	require.NoError(t, s.Close(t.Context()))
}

func TestDialRefusesBadOptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, option := range map[string]signalbox.SessionOption{
		"NilLogger":   signalbox.WithLogger(nil),
		"BracePrefix": signalbox.WithPrefix("{x}:"),
		"LongPrefix":  signalbox.WithPrefix(strings.Repeat("x", 65)),
		"BadDefault":  signalbox.WithDefaults(signalbox.WithRenewedLease(0)),
	} {
		s, err := signalbox.Dial(t.Context(), server.URL(), option)
		require.Nil(t, s, name)
		require.ErrorIs(t, err, signalbox.ErrBadOption, name)
		_, err = reentrant.New(locktest.SteadySession(t, server, option), "a").Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrBadOption, name)
	}
}

// A sentinel is recognised, with and without master_set, and has credentials of its own.
func TestDialBySentinels(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartSentinel(t)
	watcher, primary := nodes.Sentinels()[0], nodes.Primary(t)
	watcher.MustDo(t, "ACL", "SETUSER", "watch", "on", ">wright", "allchannels", "+@all")
	primary.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	as := func(server *redistest.Server, user, query string) string {
		return strings.Replace(server.URL(), "redis://", "redis://"+user, 1) + "?" + query
	}
	const set = "master_set=" + redistest.MasterSet
	s, err := signalbox.Dial(t.Context(), as(watcher, "teller:right@", set+"&sentinel_username=watch&sentinel_password=wright"))
	require.NoError(t, err)
	require.NoError(t, locktest.Must(t, reentrant.New(s, "a").Lock).Unlock())
	require.NoError(t, s.Close(t.Context()))
	require.NotEmpty(t, primary.MustDo(t, "GET", locktest.Key("a")), "the floor of the tokens")
	for address, want := range map[string]struct {
		kind error
		text string
	}{
		as(watcher, "", ""):                 {signalbox.ErrBadOption, "add the parameter master_set"},
		as(watcher, "", "master_set=other"): {signalbox.ErrBadOption, "the name in master_set"},
		as(primary, "", set):                {signalbox.ErrBadOption, "the server is not a sentinel"},
		as(watcher, "teller:zecret@", set):  {signalbox.ErrDenied, "WRONGPASS"},
		as(watcher, "", set+"&sentinel_username=watch&sentinel_password=zecret"): {signalbox.ErrDenied, "WRONGPASS"},
	} {
		s, err := signalbox.Dial(t.Context(), address)
		require.Nil(t, s, address)
		require.ErrorIs(t, err, want.kind, address)
		require.ErrorContains(t, err, want.text, address)
		require.NotContains(t, err.Error(), "zecret")
	}
	watcher.MustDo(t, "SENTINEL", "MONITOR", "unreachable", "127.0.0.1", "1", "1") // as inside of a network of containers
	_, err = signalbox.Dial(t.Context(), as(watcher, "", "master_set=unreachable"))
	require.ErrorContains(t, err, "the primary that the sentinels name: dial tcp 127.0.0.1:1: connect: connection refused (if the address cannot be reached")
}

// A server whose certificate has an authority of its own is dialled by URL alone, and so is one
// that asks for a certificate.
func TestDialWithAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]redistest.Option{"TLS": redistest.WithTLS(), "Mutual": redistest.WithClientCertificates()} {
		server := redistest.Start(t, option)
		folder, _ := server.MustDo(t, "CONFIG", "GET", "dir").([]any)
		files := "?ca=" + url.QueryEscape(filepath.Join(fmt.Sprint(folder[1]), "authority.pem"))
		if own := server.TLSConfig().Certificates; len(own) > 0 {
			_, err := signalbox.Dial(t.Context(), server.URL()+files)
			require.Error(t, err, "without a certificate")
			certificate, key := writePair(t, own[0])
			files += "&cert=" + url.QueryEscape(certificate) + "&key=" + url.QueryEscape(key)
		}
		s, err := signalbox.Dial(t.Context(), server.URL()+files)
		require.NoError(t, err, name)
		require.NoError(t, locktest.Must(t, reentrant.New(s, "a").Lock).Unlock())
		require.NoError(t, s.Close(t.Context()))
		_, err = signalbox.Dial(t.Context(), server.URL()+files+"&server_name=elsewhere.example")
		require.ErrorContains(t, err, "elsewhere.example")
	}
}

// writePair writes a certificate and its key to files.
func writePair(t *testing.T, pair tls.Certificate) (certificate, key string) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	certificate, key = filepath.Join(t.TempDir(), "own.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certificate, key
}

// P10: wrong credentials are ErrDenied, with the server's words and without the password.
func TestDialWithWrongCredentialsIsErrDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	s, err := signalbox.Dial(t.Context(), strings.Replace(server.URL(), "redis://", "redis://teller:secret@", 1))
	require.Nil(t, s)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "secret")
	require.ErrorIs(t, err, signalbox.ErrDenied)
}

// The first script is refused, and the error says once what to grant.
func TestDialWithoutARightSaysItOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "default", "-evalsha")
	_, err := signalbox.Dial(t.Context(), server.URL())
	require.ErrorIs(t, err, signalbox.ErrDenied)
	require.ErrorContains(t, err, server.Addr())
	for _, words := range []string{signalbox.ErrDenied.Error(), "(grant +evalsha)"} {
		require.Equal(t, 1, strings.Count(err.Error(), words), err)
	}
}

// P6: the context of Dial bounds it, also where a server accepts and says nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Freeze()
	stopped := errors.New("the program\nis asked to end")
	ctx, cancel := context.WithCancelCause(t.Context())
	dialled := later(func() error {
		// Nothing but the context ends it while the test waits.
		_, err := signalbox.Dial(ctx, server.URL()+"?dial_timeout=1m&write_timeout=1m")
		return err
	})
	redistest.Await(t, "a connection", func() bool { return pendingConnections(t, server) > 0 })
	cancel(stopped)
	err := redistest.Receive(t, "the end of Dial", dialled)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, stopped)
	require.NotErrorIs(t, err, signalbox.ErrNoReply)
	require.NotContains(t, err.Error(), "\n")
}

// P6: nor does it begin with a context that has ended.
func TestDialWithAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.Empty(t, server.SentBy(func() {
		s, err := signalbox.Dial(locktest.Ended(), server.URL())
		require.Nil(t, s)
		require.ErrorIs(t, err, context.Canceled)
	}))
}

// P10: a server that is too old is said to be, by Dial and by the first call of a session.
func TestAnOldServerIsErrOldServer(t *testing.T) {
	t.Parallel()
	old := listenAsAnOldServer(t)
	s, err := signalbox.Dial(t.Context(), "redis://"+old.address)
	require.Nil(t, s)
	require.ErrorIs(t, err, signalbox.ErrOldServer)
	require.ErrorContains(t, err, "6.2")

	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{old.address}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	mu := reentrant.New(signalbox.NewSession(client), "a")
	_, err = mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrOldServer)
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrOldServer)
}

// P10: a client that its owner closed is ErrClosed, not an outage to wait for.
func TestAClientThatWasClosedIsErrClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, signalbox.Tune)
	s := signalbox.NewSession(client)
	t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
	mu := reentrant.New(s, "a")
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	client.Close()
	_, err := mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrClosed)
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrClosed)
}

// A session has an id that differs from all others; the server tracks holders by it.
func TestASessionHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	require.Len(t, one.ID(), 22)
	require.Equal(t, one.ID(), one.ID())
	require.NotEqual(t, one.ID(), other.ID())
	var none *signalbox.Session
	require.Empty(t, none.ID())
	require.Equal(t, slog.Default(), none.Logger())
}

// P10: a session finds its server away, says so, and works when it is back.
func TestASessionOutlivesItsServersAbsence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := signalbox.Dial(t.Context(), server.URL())
	require.NoError(t, err)
	server.Kill()
	mu := reentrant.New(s, "a")
	redistest.Await(t, "a refused connection", func() bool { // a try may still meet the one that breaks
		_, err = mu.TryLock(t.Context())
		require.Error(t, err)
		var refused *net.OpError
		return errors.As(err, &refused) && refused.Op == "dial"
	})
	server.Restart()
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	require.NoError(t, s.Close(t.Context()))
}

// P6, P10: if subscriptions are denied, one line says so, however long the waiters live without.
func TestDeniedSubscriptionsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "resetchannels", "+@all")
	log := locktest.NewSecrets(t)
	s, err := signalbox.Dial(t.Context(),
		strings.Replace(server.URL(), "redis://", "redis://teller:right@", 1), signalbox.WithLogger(log.Logger()))
	require.NoError(t, err)
	holding := locktest.SteadySession(t, server)
	for _, name := range []string{"a", "b"} {
		server.MustDo(t, "ACL", "LOG", "RESET")
		lease := locktest.Must(t, reentrant.New(holding, name).Lock)
		waiting := locktest.LaterWith(t.Context(), reentrant.New(s, name).Lock)
		redistest.Await(t, "a subscription that is denied", func() bool {
			return strings.Contains(fmt.Sprint(server.MustDo(t, "ACL", "LOG")), names.Grants(names.DefaultPrefix)+s.ID())
		})
		require.NoError(t, lease.Unlock())
		next := locktest.MustHave(t, waiting)
		require.NoError(t, next.Unlock())
	}
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.Recorded(), "\n"), log.Recorded())
	require.Contains(t, log.Recorded(), "level=WARN")
	require.Contains(t, log.Recorded(), "NOPERM")
}
