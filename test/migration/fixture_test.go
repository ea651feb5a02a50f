// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// version is one version of a service: it acquires its lock, and returns how to release it.
type version func(ctx context.Context) (release func() error, err error)

// fixture is a server with a counter, which is read and written in two steps.
type fixture struct {
	*testing.T

	server *redistest.Server
	client rueidis.Client
	name   string
	inside atomic.Int32
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := redistest.Start(t)
	return &fixture{T: t, server: server, client: server.Client(t, nil), name: "order/42"}
}

// count makes so many acquisitions by each of these versions at once, and requires that the counter misses none of them.
func (f *fixture) count(each int, versions ...version) {
	f.Helper()
	before := f.value()
	var left sync.WaitGroup
	failed := make(chan error, len(versions))
	for _, v := range versions {
		left.Go(func() {
			for range each {
				if err := f.once(v); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	left.Wait()
	close(failed)
	for err := range failed {
		require.NoError(f, err)
	}
	require.Equal(f, before+each*len(versions), f.value())
}

// once acquires, adds one to the counter, and releases.
func (f *fixture) once(v version) error {
	ctx := f.Context()
	release, err := v(ctx)
	if err != nil {
		return err
	}
	if others := f.inside.Add(1); others != 1 {
		f.Errorf("%d are inside", others)
	}
	next := strconv.Itoa(f.value() + 1)
	f.inside.Add(-1)
	if err := f.client.Do(ctx, f.client.B().Set().Key("counter").Value(next).Build()).Error(); err != nil {
		return err
	}
	return release()
}

func (f *fixture) value() int {
	n, err := f.client.Do(f.Context(), f.client.B().Get().Key("counter").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		f.Error(err)
	}
	return int(n)
}

// session opens a session, as a process of its own would.
func (f *fixture) session(options ...signalbox.SessionOption) *signalbox.Session {
	f.Helper()
	return locktest.Session(f, f.server, options...)
}

// lock is what every lock of this library has.
type lock interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
}

// ours is a version that uses a lock of this library.
func ours(l lock) version {
	return func(ctx context.Context) (func() error, error) {
		lease, err := l.Lock(ctx)
		return lease.Unlock, err
	}
}
