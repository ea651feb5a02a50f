// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// A client that may only publish deceives no session: a forged grant leads to a poll, a forged ForceUnlock
// leads to a question, and the lock is not affected.
func TestAClientThatMayOnlyPublishDeceivesNoSession(t *testing.T) {
	t.Parallel()
	server, keys := redistest.Start(t), locktest.Keys("forged")
	view, holder, waiter := locktest.NewView(t, server), locktest.Session(t, server), locktest.Session(t, server)
	held := locktest.Must(t, fair.New(holder, "forged").Lock)
	got := locktest.LaterWith(t.Context(), fair.New(waiter, "forged").Lock)
	grants, news := proto.Grants(proto.DefaultPrefix)+id(waiter), proto.Session(proto.DefaultPrefix, id(holder))
	redistest.Await(t, "a waiter that listens, and a holder that does", func() bool {
		return locktest.Listeners(t, server, grants) == 1 && locktest.Listeners(t, server, news) == 1
	})
	calls := func(command string) int64 { return server.CommandStats()[command].Calls }

	tickets := fmt.Sprint(server.MustDo(t, "ZRANGE", keys.QueueKey(), 0, -1))
	attempt := strings.TrimPrefix(strings.Trim(tickets, "[]"), id(waiter))[:19]            // behind it is the mode
	forged := wire.ParseStamp(fmt.Sprintf("%016d", time.Now().Add(time.Hour).UnixMicro())) // no true token is so great
	polls := calls("zmscore")
	server.MustDo(t, "PUBLISH", grants, attempt+forged.Text()+"000000000001AAAAAAAA")
	redistest.Await(t, "a poll", func() bool { return calls("zmscore") > polls })
	require.Empty(t, got)
	asked := calls("get")
	server.MustDo(t, "PUBLISH", news, keys.Holder)
	redistest.Await(t, "a question", func() bool { return calls("get") > asked })

	require.NoError(t, held.Unlock())
	lease := locktest.MustHave(t, got)
	require.Less(t, lease.Token(), forged.Token())
	require.Equal(t, view.MustHold(t, "forged").Token, lease.Token())
	require.NoError(t, lease.Unlock())
}
