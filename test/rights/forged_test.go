// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// forgedTarget is a fair lock that one session holds and another waits for; the waiter may get forged messages.
type forgedTarget struct {
	server         *redistest.Server
	view           *locktest.View
	keys           names.Set
	held           signalbox.Lease
	holder, waiter *signalbox.Session
	got            chan signalbox.Lease
	forged         wire.Stamp // an hour ahead: no true token is
}

func newTarget(t *testing.T) *forgedTarget {
	t.Helper()
	const name = "forged"
	f := &forgedTarget{server: redistest.Start(t), keys: locktest.Keys(name), got: make(chan signalbox.Lease, 1)}
	f.view, f.holder, f.waiter = locktest.NewView(t, f.server), locktest.Session(t, f.server), locktest.Session(t, f.server)
	f.forged = wire.ParseStamp(fmt.Sprintf("%016d", time.Now().Add(time.Hour).UnixMicro()))
	var err error
	f.held, err = fair.New(f.holder, name).Lock(locktest.Context(t))
	require.NoError(t, err)
	go func() {
		lease, err := fair.New(f.waiter, name).Lock(t.Context())
		if err == nil {
			f.got <- lease
		}
	}()
	redistest.Await(t, "a waiter that listens, and a holder that does", func() bool {
		return f.receives(t, names.Grants(names.DefaultPrefix)+id(f.waiter)) && f.receives(t, names.Session(names.DefaultPrefix, id(f.holder)))
	})
	return f
}

// receives reports whether a channel has a subscriber.
func (f *forgedTarget) receives(t *testing.T, channel string) bool {
	t.Helper()
	return fmt.Sprint(f.server.MustDo(t, "PUBSUB", "NUMSUB", channel)) == fmt.Sprint([]any{channel, 1})
}

// grant sends the waiter a grant message that names the heartbeat number.
func (f *forgedTarget) grant(t *testing.T, number string) {
	t.Helper()
	line := fmt.Sprint(f.server.MustDo(t, "ZRANGE", f.keys.QueueKey(), 0, -1))
	attempt := strings.TrimPrefix(strings.Trim(line, "[]"), id(f.waiter))[:19] // behind it is the mode
	f.server.MustDo(t, "PUBLISH", names.Grants(names.DefaultPrefix)+id(f.waiter), attempt+f.forged.Text()+number)
}

// A client that may only publish deceives no session: a forged grant leads to a poll, a forged ForceUnlock
// leads to a question, and the lock is not affected.
func TestAClientThatMayOnlyPublishDeceivesNoSession(t *testing.T) {
	t.Parallel()
	f := newTarget(t)
	calls := func(command string) int64 { return f.server.CommandStats()[command].Calls }
	polls := calls("zmscore")
	f.grant(t, "000000000001AAAAAAAA")
	redistest.Await(t, "a poll", func() bool { return calls("zmscore") > polls })
	require.Empty(t, f.got)
	requested := calls("get")
	f.server.MustDo(t, "PUBLISH", names.Session(names.DefaultPrefix, id(f.holder)), f.keys.Holder)
	redistest.Await(t, "a question", func() bool { return calls("get") > requested })
	require.NoError(t, f.held.Unlock())
	lease := redistest.Receive(t, "the lock", f.got)
	require.Less(t, lease.Token(), f.forged.Token())
	require.Equal(t, f.view.MustHold(t, "forged").Token, lease.Token())
	require.NoError(t, lease.Unlock())
}

// A client that may publish and read the keys makes a waiter believe that it has a fair lock, until its
// first renewal. The true holder is not affected.
func TestAClientThatMayPublishAndReadDeceivesAWaiter(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	f := newTarget(t)
	redistest.Await(t, "a waiter that is deceived", func() bool {
		life := fmt.Sprint(f.server.MustDo(t, "HGET", f.keys.HeartbeatsKey(), id(f.waiter)))
		if len(f.got) == 0 {
			f.grant(t, life[16:36])
		}
		return len(f.got) > 0
	})
	lease := <-f.got
	require.Equal(t, f.forged.Token(), lease.Token())
	redistest.Receive(t, "the end of what was forged", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.NoError(t, f.held.Unlock())
}
