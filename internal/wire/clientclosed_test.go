// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// movingClient is a client that gives its connection up while the first scripts are under way, as one does that
// follows sentinels.
type movingClient struct {
	rueidis.Client

	moved bool
}

// Do implements rueidis.Client.
func (m *movingClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !m.moved {
		m.moved = true
		return rueidis.NewErrorResult(rueidis.ErrClosing)
	}
	return m.Client.Do(ctx, command)
}

// DoMulti implements rueidis.Client.
func (m *movingClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := m.Client.DoMulti(ctx, commands...)
	if !m.moved {
		m.moved = true
		for i := range results[1:] {
			results[i+1] = rueidis.NewErrorResult(rueidis.ErrClosing)
		}
	}
	return results
}

// P10: the client says that it is closed of connections that it leaves as well. What was under way there has
// no known outcome, and the next call finds another server.
func TestCallOnAClosedConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, run := range map[string]func(*wire.Runner) error{
		"One": func(r *wire.Runner) error {
			_, err := r.Run(t.Context(), hello("key"))
			return err
		},
		"Many": func(r *wire.Runner) error {
			outcomes := r.RunMany(t.Context(), []wire.Call{hello("key"), hello("key"), hello("key")})
			return errors.Join(outcomes[1].Err, outcomes[2].Err)
		},
	} {
		client := server.Client(t, signalbox.Tune)
		r := wire.NewRunner(&movingClient{Client: client})
		err := run(r)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, errs.ErrClosed, name)
		require.Equal(t, wire.Unknown, wire.Judge(err), name)
		require.NoError(t, run(r), name)

		client.Close()
		require.ErrorIs(t, run(r), errs.ErrClosed, name)
		require.Equal(t, wire.Final, wire.Judge(run(r)), name)
	}
}
