// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
)

// Sizes of a lean client's buffers: what a lock sends fits many times.
const (
	leanBuffer = 16 << 10
	leanRing   = 8
)

// rueidisOption returns the options of a client of rueidis, as its defaults have them.
func rueidisOption(s setup) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: []string{s.addr}}
	if s.lean {
		o.ReadBufferEachConn, o.WriteBufferEachConn = leanBuffer, leanBuffer
		o.RingScaleEachConn = leanRing
	}
	return o
}

// tunedClient returns the client that signalbox wants, which the limit uses as well.
func tunedClient(s setup) (rueidis.Client, error) {
	o := rueidisOption(s)
	signalbox.Tune(&o)
	return rueidis.NewClient(o)
}

// poolSize lets every goroutine of the works with 64 of them have a connection.
const poolSize = 64

// pooledClient returns a client of go-redis. Its pool lets callers wait for a connection as
// long as a lease: thousands of them that poll share it.
func pooledClient(s setup) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: poolSize, PoolTimeout: s.lease})
}
