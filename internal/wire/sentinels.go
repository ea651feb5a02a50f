// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// HideCredentialsFromSentinels restricts the credentials function of o to the servers. The client calls it for every
// connection, and would log in at the sentinels as the user of the servers. With it, as with Username and Password,
// sentinels get Sentinel.Username and Sentinel.Password. It needs a DialCtxFn.
func HideCredentialsFromSentinels(o *rueidis.ClientOption) {
	credentials, next := o.AuthCredentialsFn, o.DialCtxFn
	if o.Sentinel.MasterSet == "" || credentials == nil || next == nil {
		return
	}
	// The client dials sentinels by a copy of Sentinel.Dialer, and nothing else shows which they are: they may be found
	// later, at the host of a server. So that dialer gets a resolver by which it is recognised.
	sentinelResolver := &net.Resolver{}
	if own := o.Sentinel.Dialer.Resolver; own != nil {
		sentinelResolver.PreferGo, sentinelResolver.StrictErrors, sentinelResolver.Dial = own.PreferGo, own.StrictErrors, own.Dial
	}
	o.Sentinel.Dialer.Resolver = sentinelResolver
	o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := next(ctx, addr, dialer, config)
		if err != nil || dialer.Resolver != sentinelResolver {
			return conn, err
		}
		return sentinelConn{conn}, nil
	}
	sentinels := rueidis.AuthCredentials{Username: o.Sentinel.Username, Password: o.Sentinel.Password}
	o.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, is := of.Address.(sentinelAddr); is {
			return sentinels, nil
		}
		return credentials(of)
	}
}

// sentinelConn is a connection to a sentinel.
type sentinelConn struct{ net.Conn }

// RemoteAddr implements net.Conn. The client passes the address to the credentials function.
func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// sentinelAddr is the address of a sentinel.
type sentinelAddr struct{ net.Addr }

// SentinelDisagreement asks every sentinel in the tuned options for the primary. It returns "" if those that reply
// name one primary, and otherwise the primary that each of them names. The client trusts the first sentinel that
// replies, and does not notice. SentinelDisagreement waits for each sentinel for the dial timeout at most.
func SentinelDisagreement(ctx context.Context, o rueidis.ClientOption) string {
	if o.Sentinel.MasterSet == "" || len(o.InitAddress) < 2 {
		return ""
	}
	ctx, cancel := errs.WithTimeout(ctx, o.Sentinel.Dialer.Timeout)
	defer cancel()
	var mu sync.Mutex
	sentinels := make(map[string][]string) // by the primary that they name
	var requests sync.WaitGroup
	for _, sentinel := range slices.Compact(slices.Sorted(slices.Values(o.InitAddress))) {
		requests.Go(func() {
			primary := primaryNamedBy(ctx, o, sentinel)
			if primary == "" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sentinels[primary] = append(sentinels[primary], sentinel)
		})
	}
	all := make(chan struct{})
	go func() { // ends by the time limits of the client
		requests.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sentinels) < 2 {
		return ""
	}
	var words []string
	for _, primary := range slices.Sorted(maps.Keys(sentinels)) {
		words = append(words, fmt.Sprintf("%s by %s", primary, strings.Join(slices.Sorted(slices.Values(sentinels[primary])), ", ")))
	}
	return strings.Join(words, "; ")
}

// primaryNamedBy returns the primary that a sentinel names, "" if it does not reply.
func primaryNamedBy(ctx context.Context, o rueidis.ClientOption, sentinel string) string {
	name := o.Sentinel.MasterSet
	o.InitAddress, o.ForceSingleClient, o.SelectDB = []string{sentinel}, true, 0
	o.Username, o.Password, o.ClientName = o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.ClientName
	o.Dialer, o.TLSConfig = o.Sentinel.Dialer, o.Sentinel.TLSConfig
	o.Sentinel = rueidis.SentinelOption{}
	client, err := rueidis.NewClient(o)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return ""
	}
	defer client.Close()
	words, err := client.Do(ctx, client.B().Arbitrary("SENTINEL", "GET-MASTER-ADDR-BY-NAME").Args(name).Build()).AsStrSlice()
	if err != nil || len(words) != 2 {
		return ""
	}
	host, port := canonical(net.JoinHostPort(words[0], words[1]), "")
	return net.JoinHostPort(host, port)
}
