// SPDX-License-Identifier: Apache-2.0

// Package redistest gives tests and benchmarks real Redis or Valkey servers, alone, under
// sentinels, in a cluster or behind TLS, a proxy that fails at chosen requests, and child
// processes that can be killed or stopped.
//
// # Usage
//
// [Start] runs a server for one test, [NewProxy] puts a failing proxy before it, and [Child] runs a registered function in a
// process of its own. Programs without a test use [StartServer], [StartProxy] and [StartChild], and close what they get.
// [StartSentinel] and [StartCluster] run servers that fail over; each of them, and a [Server], is a [Topology]. [NewRouter] puts
// one endpoint before several servers, as some providers do. [Await] and [Receive] wait for what must come.
//
// Without [WithFailoverAfter] a failover comes after a second or two without a sign of life: for tests that kill
// or freeze a primary and then call AwaitFailover. [WithLinks] puts a proxy before each
// node for the others, so that links of two nodes can be cut.
//
// # Guarantees
//
//  1. Nothing outlives the process that started it: no server, no child, no folder; also if that process is killed with SIGKILL,
//     and if what it started is stopped. supervise.go explains how. Only a supervisor that is itself killed leaves its work to Close.
//  2. Start returns a server that replies, and it is the one just started.
//  3. Freeze returns when every thread is stopped, Thaw when none is.
//  4. A proxy forwards bytes unchanged and in order, and matches each reply to its request. A fault happens to exactly the request
//     that it was armed for. TLS, MONITOR and CLIENT REPLY cannot go through one.
//  5. A server that is down keeps its port until Close: no other server or proxy of this package, in any process, is given it.
//  6. A cluster, or what sentinels watch, is ready for a failover when its start returns.
//
// It works on Linux only: the state of a process is read from /proc.
//
// # Failure
//
// [Server.Do] reports errors, since an error reply is often what a test asks for. Every other method of Server, Proxy and Process
// that cannot do its work reports with Errorf to the test that started it, from any goroutine, and panics in a program without a
// test. What takes a test as its argument ends that test and must be called from its goroutine.
//
// # Locking
//
// Server.mu and Process.mu are held while processes are started, signalled and waited for, which takes the lock of a log after
// them. All other locks are leaves, and none is held while a caller's function is called: a hook may use the server, the proxy
// and the children freely, except that it must not wait for its own connection, as [Proxy.Close] does.
package redistest
