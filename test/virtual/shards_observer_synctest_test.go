// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// memberEvents are the events of the members of a session, in order.
type memberEvents struct {
	mu  sync.Mutex
	all []string
}

// observer returns an observer that writes them down.
func (m *memberEvents) observer() signalbox.Observer {
	note := func(word string) func(context.Context, signalbox.Event) {
		return func(_ context.Context, e signalbox.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.all = append(m.all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", word, e.Shard, e.Outcome)), " "))
			if e.Kind != "shards" || e.Name != "a" || (e.Shard == "") == (e.Token != 0) {
				m.all = append(m.all, fmt.Sprintf("not as it must be: %+v", e))
			}
		}
	}
	return signalbox.Observer{
		Names: true, MemberJoined: note("joined"), MemberLeft: note("member"), ShardGranted: note("granted"),
		ShardDraining: note("draining"), ShardSlow: note("slow"), ShardReleased: note("released"),
	}
}

// take returns the events since the last call.
func (m *memberEvents) take() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, m.all = m.all, nil
	return all
}

// What happens to a member and its shards is reported, in order: a grant, a move, a drain that is slow, a lost lease, a leave.
func TestObserverOfAMember(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		var events memberEvents
		user := w.user(signalbox.WithObserver(events.observer()))
		drain := make(chan struct{})
		ctx, cancel := context.WithCancel(w.Context())
		returned := make(chan error, 1)
		go func() {
			returned <- shards.New(user.Session, "a", shards.Names("x")).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // the member learns of the end as well
				if errors.Is(context.Cause(ctx), shards.ErrRemoved) {
					<-drain
				}
				return nil
			})
		}()
		time.Sleep(5 * time.Second)
		require.Equal(w, []string{"joined", "granted x"}, events.take())

		other := shards.New(w.user().Session, "a", shards.Names())
		require.NoError(w, other.Sync(w.Context(), nil))
		time.Sleep(2 * time.Minute)
		require.Equal(w, []string{"draining x removed", "slow x removed"}, events.take(), "slow is reported once")
		close(drain)
		time.Sleep(time.Second)
		require.Equal(w, []string{"released x removed"}, events.take())
		require.NoError(w, other.Sync(w.Context(), []string{"y"}))
		time.Sleep(time.Second)
		require.Equal(w, []string{"granted y"}, events.take())

		user.wire.goSilent()
		time.Sleep(20 * time.Second)
		require.Equal(w, []string{"member expired", "draining y expired", "released y expired"}, events.take())
		user.wire.heal()
		time.Sleep(10 * time.Second)
		require.Equal(w, []string{"joined", "granted y"}, events.take())
		cancel()
		require.ErrorIs(w, <-returned, context.Canceled)
		time.Sleep(time.Second)
		require.Equal(w, []string{"draining y left", "released y left", "member left"}, events.take())
	})
}
