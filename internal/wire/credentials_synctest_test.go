// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
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

// A function may return another user at each call, and anything that a server may have: blanks, line ends, zero bytes, 120,000 bytes, no
// password, nothing. What a connection sends is what one call returned, as it is, and the server's refusal of it is named without it.
func TestCredentialsAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	all := []rueidis.AuthCredentials{
		{Username: "one", Password: "S3cretPassw0rd"},
		{Username: "two", Password: "S3cret with blanks "},
		{Password: "S3cretAlone"},
		{Username: "us er\r\n\x00", Password: "S3cret\r\n+OK\r\n\x00"},
		{Username: "three"},
		{Username: "AUTH", Password: "HELLO"},
		{Username: "four", Password: strings.Repeat("S3cret", 20000)},
		{},
	}
	want := make(map[string]bool)
	for _, c := range all {
		user := c.Username
		if user == "" && c.Password != "" {
			user = "default"
		}
		want[fmt.Sprintf("$%d\r\n%s\r\n$%d\r\n%s\r\n", len(user), user, len(c.Password), c.Password)] = true
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, refuses, sent := 0, false, make(map[string]bool)
		f := &fakeServer{reply: func(request string) string {
			mu.Lock()
			defer mu.Unlock()
			_, hello, isHello := strings.Cut(request, "HELLO\r\n$1\r\n3\r\n")
			if isHello {
				_, auth, _ := strings.Cut(hello, "AUTH\r\n")
				for of := range want {
					if strings.HasPrefix(auth, of) {
						sent[of] = true
					}
				}
				if auth == "" {
					sent["$0\r\n\r\n$0\r\n\r\n"] = true
				}
				if refuses {
					return fmt.Sprintf("-WRONGPASS of: %q\r\n", hello)
				}
			}
			return welcomes(request)
		}}
		client := f.client(t, func(o *rueidis.ClientOption) {
			o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				return all[calls%len(all)], nil
			}
		})
		defer client.Close()
		r := wire.NewRunner(client)
		for range 1200 { // connections are replaced by their age
			_, err := r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		mu.Lock()
		require.Equal(t, want, sent)
		refuses = true
		mu.Unlock()
		for range 1200 {
			_, _ = r.Run(t.Context(), hello("key"))
			time.Sleep(100 * time.Millisecond)
			found, _ := wire.Failures(client)
			for _, err := range found {
				require.ErrorContains(t, err, "WRONGPASS")
				require.NotContains(t, err.Error(), "S3cret")
			}
		}
		found, _ := wire.Failures(client)
		require.NotEmpty(t, found)
	})
}
