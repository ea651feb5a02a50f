// SPDX-License-Identifier: Apache-2.0

// Package goredis opens a session of signalbox for a service that has a go-redis client. It takes the client's settings:
// addresses, TLS, credentials, database, sentinels, dialer.
//
// Use it if the service has such a client. With rueidis, or without any, use signalbox.Dial.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"}) // the service has it
//	...
//	session, err := goredis.Dial(ctx, client)
//	...
//	defer session.Close(context.WithoutCancel(ctx)) // ctx may have ended by then
//
// # Connections of its own
//
// The session has a connection of its own for calls, with the identity of the client, and a second one for messages while a
// caller waits or holds a lock for longer than 100 ms. In a cluster it has these for each node with such a lock. The client's
// pool is not used: it repeats a script whose reply was lost. Close does not close the client.
//
// # What is taken over
//
//	Addr, Addrs, Network                           the servers; a cluster behind a single Addr is found
//	Dialer                                         makes every connection, and does TLS itself
//	TLSConfig                                      a copy of it, over every Network
//	Username, Password                             as they are; without a password there is no login, as in go-redis
//	StreamingCredentialsProvider, then
//	CredentialsProviderContext, then
//	CredentialsProvider                            asked for each connection; a streaming one is subscribed to until Close, and
//	                                               each connection logs in again every 15 s with what it has
//	DB, ClientName, Protocol                       as they are
//	DialTimeout                                    unless it is 5s, the default of go-redis: then 2s
//	MasterName, SentinelAddrs, SentinelUsername,   the sentinels, which get their own credentials and never those
//	SentinelPassword                               of the server; for those that change: signalbox.WithSentinelCredentials
//
// # What is left out
//
// Settings of the pool, of retries and of caches, buffers, reading from replicas (locks go to the primary), and hooks: those
// that are added to a client, for tracing as well, see nothing of the session's connections.
//
// # What is refused
//
// Settings that would change what the session does, and that it cannot follow: OnConnect (by which older services log in),
// ClusterSlots, NewClient and Limiter. So is a client that NewFailoverClient made: it does not show its sentinels, and a
// session would stay with a demoted primary. Give its options to DialOptions. So is a connection without TLS that a Dialer returns
// while TLSConfig is set: go-redis ignores TLSConfig then, and writes the password in the clear. Errors are
// signalbox.ErrBadOption, name the field, and never contain a password.
package goredis
