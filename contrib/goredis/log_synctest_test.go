// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// steady is a provider that has credentials, and whose listener the test calls.
type steady struct{ listener auth.CredentialsListener }

func (s *steady) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.listener = l
	return auth.NewBasicCredentials("teller", "1"), func() error { return nil }, nil
}

// A provider that fails is logged once, and its end once, however often it fails and recovers in between.
func TestFailuresOfAProviderAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		logged := func() (failed, works int) {
			synctest.Wait()
			return strings.Count(out.String(), "the provider of credentials failed"), strings.Count(out.String(), "works again")
		}
		requireLogged := func(wantFailed, wantWorks int) {
			t.Helper()
			failed, works := logged()
			require.Equal(t, [2]int{wantFailed, wantWorks}, [2]int{failed, works})
		}
		provider := new(steady)
		s := &subscription{provider: provider}
		request := func() {
			t.Helper()
			_, err := s.credentials(rueidis.AuthCredentialsContext{})
			require.NoError(t, err)
			synctest.Wait()
		}
		request()
		provider.listener.OnError(errors.New("early"))
		requireLogged(0, 0)
		s.logTo(func() *slog.Logger { return slog.New(slog.NewTextHandler(&out, nil)) })
		requireLogged(1, 0)
		for range 100 {
			for range 100 {
				provider.listener.OnError(errors.New("away"))
				provider.listener.OnNext(auth.NewBasicCredentials("teller", "2"))
			}
			request()
			time.Sleep(time.Second)
		}
		requireLogged(1, 0)
		time.Sleep(quietAfter)
		request()
		request()
		requireLogged(1, 1)
		provider.listener.OnError(errors.New("away"))
		requireLogged(2, 1)
		s.close()
	})
}

// handler is the handler of a log that does something else than to write.
type handler struct {
	slog.Handler
	instead func()
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(context.Context, slog.Record) error {
	h.instead()
	return nil
}

// The handler of the log may hang, panic, or end its goroutine. No credentials wait for it.
func TestNoCredentialsWaitForTheLog(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]func(){
		"Hangs": func() { time.Sleep(time.Hour) }, "Panics": func() { panic("at the disco") }, "Exits": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				provider := new(steady)
				s := &subscription{provider: provider}
				s.logTo(func() *slog.Logger { return slog.New(handler{instead: instead}) })
				began := time.Now()
				_, err := s.credentials(rueidis.AuthCredentialsContext{})
				require.NoError(t, err)
				provider.listener.OnError(errors.New("away"))
				_, err = s.credentials(rueidis.AuthCredentialsContext{})
				require.NoError(t, err)
				require.Zero(t, time.Since(began))
				time.Sleep(2 * quietAfter)
				_, err = s.credentials(rueidis.AuthCredentialsContext{}) // says that it works again
				require.NoError(t, err)
				s.close()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}
