// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P10: a refused connection is refused for all calls in the next moment, and for no call for long.
func TestRefusedConnectionIsSharedByAllCalls(t *testing.T) {
	t.Parallel()
	const calls = 2000
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	r := wire.NewRunner(server.Client(t, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = "teller", "right"
	}))
	_, err := r.Run(t.Context(), hello("key"))
	require.NoError(t, err)

	server.MustDo(t, "ACL", "SETUSER", "teller", "resetpass", ">other")
	server.MustDo(t, "CLIENT", "KILL", "USER", "teller")
	redistest.Await(t, "a refusal", func() bool {
		_, err := r.Run(t.Context(), hello("key"))
		return errors.Is(err, errs.ErrDenied)
	})
	before := connections(t, server)
	for range calls {
		_, err := r.Run(t.Context(), hello("key"))
		require.ErrorIs(t, err, errs.ErrDenied)
		for _, outcome := range r.RunMany(t.Context(), []wire.Call{hello("a"), hello("b")}) {
			require.ErrorIs(t, outcome.Err, errs.ErrDenied)
			require.ErrorContains(t, outcome.Err, "WRONGPASS")
		}
	}
	require.Less(t, connections(t, server)-before, calls/4)

	server.MustDo(t, "ACL", "SETUSER", "teller", ">right")
	redistest.Await(t, "a result", func() bool {
		_, err := r.Run(t.Context(), hello("key"))
		return err == nil
	})
	for range 100 { // the breaker stays closed
		_, err := r.Run(t.Context(), hello("key"))
		require.NoError(t, err)
	}
}

// P10: nor is a server that is down, which is known to be up as soon as it is asked again.
func TestServerThatIsDownIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := runner(t, proxy)
	_, err := r.Run(t.Context(), hello("key"))
	require.NoError(t, err)
	proxy.Refuse()
	proxy.CutAll()
	redistest.Await(t, "a refusal", func() bool {
		_, err := r.Run(t.Context(), hello("key"))
		var refused *net.OpError
		return errors.As(err, &refused) && refused.Op == "dial"
	})
	for range 100 {
		_, err := r.Run(t.Context(), hello("key"))
		require.Equal(t, wire.Temporary, wire.Judge(err))
	}
	proxy.Accept()
	redistest.Await(t, "a result", func() bool {
		_, err := r.Run(t.Context(), hello("key"))
		return err == nil
	})
}

// connections returns how many connections the server has had, less those of asking.
func connections(t *testing.T, server *redistest.Server) int {
	t.Helper()
	stats, _ := server.MustDo(t, "INFO", "stats").(string)
	found := regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(stats)
	require.NotNil(t, found)
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}
