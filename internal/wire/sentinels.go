// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
