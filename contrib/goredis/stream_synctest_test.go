// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// What a streaming provider pushes is used. A provider that fails, panics or hangs costs a question if there are no credentials yet,
// and nothing if there are.
func TestAStreamingProviderIsListenedTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider := new(tokens)
		provider.set("1")
		current := converted(t, &redis.Options{StreamingCredentialsProvider: provider}).AuthCredentialsFn
		requireToken := func(want string) {
			t.Helper()
			began := time.Now()
			got, err := current(rueidis.AuthCredentialsContext{})
			require.NoError(t, err)
			require.Equal(t, "teller "+want, got.Username+" "+got.Password)
			require.LessOrEqual(t, time.Since(began), time.Second)
			require.WithinRange(t, got.RefreshAfter, time.Now().Add(time.Second), time.Now().Add(time.Minute))
			time.Sleep(time.Minute)
		}
		faults := map[string]func() error{
			"no token":    func() error { return errors.New("no token") },
			"it panicked": func() error { panic("at the disco") },
			"method Subscribe did not return within 4s": func() error { time.Sleep(10 * time.Second); return errors.New("late") },
		}
		for says, fault := range faults {
			provider.setOnSubscribe(fault)
			began := time.Now()
			_, err := current(rueidis.AuthCredentialsContext{})
			require.ErrorContains(t, err, says)
			require.Less(t, time.Since(began), 5*time.Second, "which is when Tune gives it up")
			time.Sleep(time.Minute)
		}
		provider.setOnSubscribe(nil)
		requireToken("1")
		require.Equal(t, 1, provider.subscribed())
		provider.set("2")
		requireToken("2") // also without a word to the listener
		require.Equal(t, 1, provider.subscribed())
		for _, fault := range faults {
			provider.setOnSubscribe(fault)
			provider.push("", errors.New("the identity service is away"))
			requireToken("2")
			provider.push("3", nil)
			requireToken("3")
			provider.push("2", nil)
		}
		require.False(t, provider.wasStopped())
	})
}
