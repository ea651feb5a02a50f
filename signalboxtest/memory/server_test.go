// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/signalboxtest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lock excludes other sessions, is handed over, and ends by the clock; and nobody without the URL gets in.
func TestALockOnAServerInMemory(t *testing.T) {
	t.Parallel()
	server, err := memory.Start()
	require.NoError(t, err)
	defer server.Close()
	var locks []*reentrant.Lock
	for range 2 {
		session, err := signalbox.Dial(t.Context(), server.URL())
		require.NoError(t, err)
		defer func() { require.NoError(t, session.Close(context.Background())) }()
		locks = append(locks, reentrant.New(session, "a", signalbox.WithFixedLease(time.Second)))
	}
	lease, err := locks[0].Lock(t.Context())
	require.NoError(t, err)
	_, err = locks[1].TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	next, err := locks[1].Lock(t.Context()) // when the lease has ended
	require.NoError(t, err)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())

	_, host, _ := strings.Cut(server.URL(), "@")
	_, err = signalbox.Dial(t.Context(), "redis://"+host)
	require.ErrorIs(t, err, signalbox.ErrDenied)
}

func BenchmarkPair(b *testing.B) {
	server, err := memory.Start()
	require.NoError(b, err)
	defer server.Close()
	session, err := signalbox.Dial(b.Context(), server.URL())
	require.NoError(b, err)
	defer session.Close(context.Background())
	for b.Loop() {
		lease, err := reentrant.New(session, "a").Lock(b.Context())
		require.NoError(b, err)
		require.NoError(b, lease.Unlock())
	}
}

func Example() {
	server, err := memory.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	session, err := signalbox.Dial(context.Background(), server.URL())
	if err != nil {
		panic(err)
	}
	defer session.Close(context.Background())
	_ = reentrant.New(session, "order/42").Do(context.Background(), func(context.Context, signalbox.Lease) error {
		fmt.Println("held")
		return nil
	})
	// Output: held
}
