// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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
	accepted := make(chan struct{}, 100)
	silent := listen(t, func(conn net.Conn) {
		accepted <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	stopped := errors.New("the program\nis asked to end")
	ctx, cancel := context.WithCancelCause(t.Context())
	dialled := later(func() error {
		// Nothing but the context ends it while the test waits.
		_, err := signalbox.Dial(ctx, "redis://"+silent+"?dial_timeout=1m&write_timeout=1m")
		return err
	})
	redistest.Receive(t, "a connection", accepted)
	cancel(stopped)
	err := redistest.Receive(t, "the end of Dial", dialled)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, stopped)
	require.NotErrorIs(t, err, signalbox.ErrNoReply)
	require.NotContains(t, err.Error(), "\n")
}

// P10: the time limit of the client is no context's.
func TestDialReportsASilentServerAsErrNoReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Freeze() // it takes connections still
	defer server.Thaw()
	_, err := signalbox.Dial(context.Background(), server.URL()+"?write_timeout=50ms")
	require.ErrorIs(t, err, signalbox.ErrNoReply)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

// The connection is made, and breaks when the first script is sent.
func TestDialReportsTheCauseOnceConnected(t *testing.T) {
	t.Parallel()
	errCause := errors.New("the request was given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.OnRequest(func(int, []string) { cancel(errCause) })
	proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	_, err := signalbox.Dial(ctx, proxy.URL())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCause)
}

// A cause may be the end of another context, as in a group of goroutines whose first one to fail
// timed out.
func TestDialIsCancelledWhateverTheCause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, cause := range []error{context.DeadlineExceeded, fmt.Errorf("another call: %w", context.DeadlineExceeded)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := signalbox.Dial(ctx, server.URL())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, signalbox.ErrNoReply)
	}
}
