// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// store is a server, or several, in one of its forms.
type store struct {
	name, form string
	survives   survival
	start      func() (*server, error)
	clients    []client
}

// survival is what becomes of a lock that is held.
type survival struct {
	holder   string // if its holder dies
	server   string // if the server dies and is started again
	failover string // if another server takes over
}

// server is a store that runs.
type server struct {
	version string
	address string // what join takes
	close   func()
}

// client is a library that locks in a store.
type client struct {
	name string
	join func(address string, lease time.Duration) (process, error)
}

// process is what one process has of a client. Its methods may be called by several goroutines.
type process interface {
	// lock blocks until this process holds the lock.
	lock(ctx context.Context, name string) (unlock func() error, err error)
	close() error
}

// stores returns what is measured.
func stores() []store {
	return []store{
		redis("Redis", "redis-server", inMemory), redis("Redis", "redis-server", durable),
		redis("Valkey", "valkey-server", inMemory), redis("Valkey", "valkey-server", durable),
		etcd(1, inMemory), etcd(1, durable), etcd(3, inMemory), etcd(3, durable),
		nats(inMemory), nats(durable), postgres(), zookeeper(1), zookeeper(3),
	}
}

const (
	inMemory = "memory"
	durable  = "disk, each write" // flushed before the reply
)

// clients returns all clients by their names.
func clients() map[string]client {
	all := make(map[string]client)
	for _, s := range stores() {
		for _, c := range s.clients {
			all[c.name] = c
		}
	}
	return all
}
