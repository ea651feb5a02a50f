// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// refreshAfter is how soon a connection repeats its login. So a token that the provider has renewed is sent on a connection that
// stays open, before the server ends that for the old one.
const refreshAfter = 15 * time.Second

// quietAfter is how long a provider has not failed when it works again.
const quietAfter = time.Minute

// A question waits for Subscribe for subscribeTimeout, which is shorter than what Tune allows a function for credentials. If there
// are credentials already, it waits for resubscribeTimeout.
const subscribeTimeout, resubscribeTimeout = 4 * time.Second, time.Second

// subscription subscribes to a streaming provider, from the first question for credentials until close: a provider renews its
// credentials for as long as it has a listener, and passes them to OnNext.
//
// A question subscribes a new listener, and then unsubscribes the one before, as go-redis has a listener for each connection. So
// the provider is asked what it has now, and always has a listener. If it fails, the last credentials are used, which the server
// may still accept.
type subscription struct {
	provider auth.StreamingCredentialsProvider

	mu struct {
		sync.Mutex
		current     auth.Credentials     // the last credentials, or nil
		received    int                  // how many credentials came by OnNext
		err         error                // the provider's last error, if nothing came after it
		failing     bool                 // a failure was logged, or is to be, and its end was not
		failedAt    time.Time            // the time of its last failure
		logger      func() *slog.Logger  // the logger of the session, or nil while there is no session yet
		unsubscribe auth.UnsubscribeFunc // ends the listener's subscription, or nil
		subscribing chan struct{}        // is closed when the call of Subscribe that is under way has returned, or nil
		closed      bool
	}
}

var errClosed = errors.New("the session is closed")

// tokenListener is a listener of a subscription. It has an address of its own: providers know listeners by it.
type tokenListener struct{ *subscription }

// OnNext implements auth.CredentialsListener.
func (l tokenListener) OnNext(credentials auth.Credentials) {
	if credentials == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.current, l.mu.err = credentials, nil
	l.mu.received++
}

// OnError implements auth.CredentialsListener. It logs the first error of a failing provider.
func (s *subscription) OnError(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	begins := !s.mu.failing && !s.mu.closed
	s.mu.failing, s.mu.failedAt, s.mu.err = true, time.Now(), err
	logger := s.mu.logger
	s.mu.Unlock()
	if begins {
		warnOf(logger, err)
	}
}

// logTo sets the logger, and logs there that the provider is failing already. A failure that is over by then was none of the session.
func (s *subscription) logTo(logger func() *slog.Logger) {
	s.mu.Lock()
	s.mu.logger = logger
	err := s.mu.err
	s.mu.failing = err != nil
	s.mu.Unlock()
	if err != nil {
		warnOf(logger, err)
	}
}

// warnOf logs that the provider fails. Without a session the error of Dial says it.
func warnOf(logger func() *slog.Logger, err error) {
	if logger != nil {
		go writeLine(func() {
			logger().Warn("signalbox: the provider of credentials failed, and the last credentials are used if there are any", "error", err)
		})
	}
}

// writeLine writes a line of the log, on a goroutine of its own, which ends when the handler returns: that is the service's code, and one
// that hangs or panics costs its line alone, and no credentials.
func writeLine(write func()) {
	defer func() { _ = recover() }()
	write()
}

// noteEnd logs that the provider works again, if it has not failed for quietAfter. So a provider that fails now and then causes one
// line in that time.
func (s *subscription) noteEnd() {
	s.mu.Lock()
	ends := s.mu.failing && s.mu.err == nil && time.Since(s.mu.failedAt) >= quietAfter
	if ends {
		s.mu.failing = false
	}
	logger, closed := s.mu.logger, s.mu.closed
	s.mu.Unlock()
	if ends && logger != nil && !closed {
		go writeLine(func() { logger().Info("signalbox: the provider of credentials works again") })
	}
}

// credentials is a function for the AuthCredentialsFn of a client.
func (s *subscription) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	s.mu.Lock()
	switch {
	case s.mu.closed:
		s.mu.Unlock()
		return rueidis.AuthCredentials{}, errClosed
	case s.mu.subscribing == nil:
		s.mu.subscribing = make(chan struct{})
		go s.subscribe(s.mu.subscribing)
	}
	subscribing, limit := s.mu.subscribing, subscribeTimeout
	if s.mu.current != nil {
		limit = resubscribeTimeout
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var late error
	select {
	case <-subscribing:
	case <-ctx.Done():
		late = fmt.Errorf("method Subscribe did not return within %v", limit)
	}
	s.mu.Lock()
	current, err := s.mu.current, cmp.Or(late, s.mu.err)
	s.mu.Unlock()
	if late != nil {
		s.OnError(late)
	}
	s.noteEnd()
	if current != nil {
		identity := identityOf(current.BasicAuth()) // without the lock: it is the provider's code
		identity.RefreshAfter = time.Now().Add(refreshAfter)
		return identity, nil
	}
	return rueidis.AuthCredentials{}, fmt.Errorf("the provider of credentials failed: %w", err)
}

// subscribe calls Subscribe without the lock, since a provider may call OnNext in it. It runs on a goroutine of its own, which ends
// when Subscribe returns; one at a time. If that is after close, it unsubscribes.
func (s *subscription) subscribe(done chan<- struct{}) {
	s.mu.Lock()
	received := s.mu.received
	s.mu.Unlock()
	var current auth.Credentials
	var unsubscribe auth.UnsubscribeFunc
	err := errors.New("it ended its goroutine")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
		if err == nil && current == nil {
			err = errors.New("it returned no credentials and no error")
		}
		if err != nil {
			s.OnError(err)
		}
		s.mu.Lock()
		s.mu.subscribing = nil
		var before auth.UnsubscribeFunc
		if err == nil {
			if s.mu.err = nil; s.mu.received == received { // else OnNext had newer ones
				s.mu.current = current
			}
			before, s.mu.unsubscribe = s.mu.unsubscribe, unsubscribe
		}
		closed := s.mu.closed
		s.mu.Unlock()
		close(done)
		end(before)
		if closed {
			s.close()
		}
	}()
	current, unsubscribe, err = s.provider.Subscribe(&tokenListener{s})
}

// close ends the subscription. It waits for the provider for no longer than subscribeTimeout.
func (s *subscription) close() {
	s.mu.Lock()
	s.mu.closed = true
	unsubscribe := s.mu.unsubscribe
	s.mu.unsubscribe = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), subscribeTimeout)
	go func() {
		defer cancel()
		end(unsubscribe)
	}()
	<-ctx.Done()
}

// end ends the subscription of a listener. Nothing depends on what the provider makes of it.
func end(unsubscribe auth.UnsubscribeFunc) {
	defer func() { _ = recover() }()
	if unsubscribe != nil {
		_ = unsubscribe()
	}
}
