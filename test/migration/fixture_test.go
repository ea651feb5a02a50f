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
func (s *fixture) count(each int, versions ...version) {
	s.Helper()
	before := s.value()
	var left sync.WaitGroup
	failed := make(chan error, len(versions))
	for _, v := range versions {
		left.Go(func() {
			for range each {
				if err := s.once(v); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	left.Wait()
	close(failed)
	for err := range failed {
		require.NoError(s, err)
	}
	require.Equal(s, before+each*len(versions), s.value())
}

// once acquires, adds one to the counter, and releases.
func (s *fixture) once(v version) error {
	ctx := s.Context()
	release, err := v(ctx)
	if err != nil {
		return err
	}
	if others := s.inside.Add(1); others != 1 {
		s.Errorf("%d are inside", others)
	}
	next := strconv.Itoa(s.value() + 1)
	s.inside.Add(-1)
	if err := s.client.Do(ctx, s.client.B().Set().Key("counter").Value(next).Build()).Error(); err != nil {
		return err
	}
	return release()
}

func (s *fixture) value() int {
	n, err := s.client.Do(s.Context(), s.client.B().Get().Key("counter").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		s.Error(err)
	}
	return int(n)
}

// session opens a session, as a process of its own would.
func (s *fixture) session(options ...signalbox.SessionOption) *signalbox.Session {
	s.Helper()
	return locktest.Session(s, s.server, options...)
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
