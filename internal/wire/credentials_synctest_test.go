// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// vault is a server in virtual time, and a function for credentials that may be at odds with it.
type vault struct {
	fakeServer

	token   string                                  // the server's; guarded by fakeServer.mu, as are the following fields
	fails   func() (rueidis.AuthCredentials, error) // the function in place of the usual one, or nil
	calls   int
	refresh time.Duration // how long after a call of the function it is called again, or 0
	unknown bool          // the server knows no HELLO
	authed  []string      // the requests that had the present token
}

func (v *vault) credentials(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	v.mu.Lock()
	fails, found := v.fails, rueidis.AuthCredentials{Username: "teller", Password: v.token}
	if v.refresh > 0 {
		found.RefreshAfter = time.Now().Add(v.refresh)
	}
	v.calls++
	v.mu.Unlock()
	if of.Address.Network() != "pipe" {
		return found, errors.New("the function did not get the address of the connection")
	}
	if fails != nil {
		return fails()
	}
	return found, nil
}

func (v *vault) serve(request string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.unknown && strings.HasPrefix(request, "*") && strings.Contains(request, "HELLO") && !strings.HasPrefix(request, "*3\r\n$4\r\nAUTH"):
		return "-ERR unknown command 'HELLO'\r\n"
	case strings.Contains(request, "AUTH"):
		if !strings.Contains(request, "teller\r\n$"+fmt.Sprint(len(v.token))+"\r\n"+v.token+"\r\n") {
			return "-WRONGPASS invalid username-password pair\r\n"
		}
		v.authed = append(v.authed, request)
		if v.unknown {
			return "+OK\r\n"
		}
		return greeting
	}
	return welcomes(request)
}

// A connection that reaches its age is replaced by one with the credentials of now. While none can be had, because the function
// fails, blocks, panics or is wrong, the connection serves: no call fails. Afterwards it is replaced again.
func TestTheSecondConnectionHasTheCredentialsOfNow(t *testing.T) {
	t.Parallel()
	blocked := func() (rueidis.AuthCredentials, error) {
		time.Sleep(time.Hour)
		return rueidis.AuthCredentials{}, errors.New("too late")
	}
	for name, c := range map[string]struct {
		fails func() (rueidis.AuthCredentials, error)
		mod   func(*vault, *rueidis.ClientOption)
	}{
		"rotated": {},
		"in RESP2": {mod: func(_ *vault, o *rueidis.ClientOption) {
			o.AlwaysRESP2 = true
		}},
		"without HELLO": {mod: func(v *vault, o *rueidis.ClientOption) {
			v.unknown, o.SelectDB = true, 3
		}},
		"refreshed on the connection": {mod: func(v *vault, _ *rueidis.ClientOption) { v.refresh = 3 * time.Second }},
		"the function fails":          {fails: func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("throttled") }},
		"the function panics":         {fails: func() (rueidis.AuthCredentials, error) { panic("no vault") }},
		"the function blocks":         {fails: blocked},
		"a refresh fails": {fails: func() (rueidis.AuthCredentials, error) { panic("no vault") }, mod: func(v *vault, _ *rueidis.ClientOption) {
			v.refresh = 3 * time.Second
		}},
		"the function is wrong": {fails: func() (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "teller", Password: "old"}, nil
		}},
		"a refresh is wrong": {fails: func() (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "teller", Password: "early", RefreshAfter: time.Now().Add(3 * time.Second)}, nil
		}, mod: func(v *vault, _ *rueidis.ClientOption) { v.refresh = 3 * time.Second }},
		"a name and a password of the past": {mod: func(_ *vault, o *rueidis.ClientOption) { o.ClientName, o.Password = "AUTH", "old" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := vault{token: "one"}
				v.reply = v.serve
				client := v.client(t, func(o *rueidis.ClientOption) {
					o.AuthCredentialsFn = v.credentials
					if c.mod != nil {
						c.mod(&v, o)
					}
				})
				defer time.Sleep(2 * time.Hour) // until a blocked function returns
				defer client.Close()
				r := wire.NewRunner(client)
				used := func(d time.Duration) (replaced int) {
					v.mu.Lock()
					v.authed = nil
					v.mu.Unlock()
					for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
						_, err := r.Run(t.Context(), hello("key"))
						require.NoError(t, err)
					}
					v.mu.Lock()
					defer v.mu.Unlock()
					return len(v.authed)
				}
				require.NotZero(t, used(10*time.Second))
				v.mu.Lock()
				v.token, v.fails = "a longer two", c.fails
				v.mu.Unlock()
				require.Equal(t, c.fails == nil, used(time.Minute) > 0)
				v.mu.Lock()
				v.fails = nil
				calls := v.calls
				v.mu.Unlock()
				require.LessOrEqual(t, calls, 60)
				require.NotZero(t, used(90*time.Second))
			})
		})
	}
}
