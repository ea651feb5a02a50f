// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// A streaming provider is asked again after refreshAfter: a token that it has renewed by then is sent on the same connection,
// before the server ends that for the old one. credentialsTimeout bounds what a provider with a context may take.
const refreshAfter, credentialsTimeout = time.Minute, 5 * time.Second

// setCredentials lets o ask the provider that go-redis would ask: the streaming one, the one with a context, the plain one.
func (c *connecting) setCredentials(o *rueidis.ClientOption) {
	switch {
	case c.StreamingCredentialsProvider != nil:
		o.AuthCredentialsFn = c.current
	case c.CredentialsProviderContext != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			timeout := c.DialTimeout
			if timeout <= 0 {
				timeout = credentialsTimeout
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			username, password, err := c.CredentialsProviderContext(ctx)
			return rueidis.AuthCredentials{Username: username, Password: password}, err
		}
	case c.CredentialsProvider != nil:
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			username, password := c.CredentialsProvider()
			return rueidis.AuthCredentials{Username: username, Password: password}, nil
		}
	}
}

// current returns the credentials that a streaming provider has now. It subscribes for that long only, so that nothing is left
// at the provider when the session is closed.
func (c *connecting) current(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	now, unsubscribe, err := c.StreamingCredentialsProvider.Subscribe(new(ignored))
	if err != nil {
		return rueidis.AuthCredentials{}, fmt.Errorf("the provider of credentials failed: %w", err)
	}
	username, password := now.BasicAuth()
	if unsubscribe != nil {
		_ = unsubscribe() // the credentials are there, whatever it says
	}
	return rueidis.AuthCredentials{Username: username, Password: password, RefreshAfter: time.Now().Add(refreshAfter)}, nil
}

// ignored is a listener that reads nothing. It has a size, so that each one has an address of its own: providers know listeners by it.
type ignored struct{ _ byte }

func (*ignored) OnNext(auth.Credentials) {}
func (*ignored) OnError(error)           {}
