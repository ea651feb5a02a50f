// SPDX-License-Identifier: Apache-2.0

// Package redistest gives tests and benchmarks real Redis or Valkey servers, alone, under
// sentinels, in a cluster or behind TLS, a proxy that fails at chosen requests, and child
// processes that can be killed or stopped.
//
// # Usage
//
// [Start] runs a server for one test, [NewProxy] puts a failing proxy before it, [Child]
// runs a registered function in a process of its own.
// Programs without a test use [StartServer] and [StartProxy] and close what they get.
//
// [NewRouter] puts one endpoint before several servers, the shards, as some providers and proxies do; [NewPipeRouter] does so
// in virtual time.
//
// [Await] and [Receive] wait for what must come. A TestMain runs its tests [Beside] a server for its examples, and more
// of them [AtATime] than there are processors if they mostly wait.
//
// [StartSentinel] and [StartCluster] run servers that fail over, [WithTLS] and
// [WithClientCertificates] are options of a single one. Each is a [Topology]. A test that applies
// to all of them runs with each of [Topologies] and [Protocols]:
//
//	for _, s := range redistest.Topologies() {
//		top, err := s.Start(redistest.WithFailoverAfter(time.Minute))
//		...
//		client := top.Client(t, redistest.RESP2)
//
// Without [WithFailoverAfter] a failover comes after a second or two without a sign of life: for tests that kill
// or freeze a primary and then call AwaitFailover. Several servers that know nothing of each other are several
// calls of Start. [WithLinks] puts a proxy before each node for the others, so that links of two nodes can be cut.
//
// A package that uses [Child] begins its TestMain with
//
//	redistest.RegisterChild("holder", runHolder)
//	if redistest.RunChild() {
//		return
//	}
//
// # Guarantees
//
//  1. Nothing outlives the process that started it: no server, no child, no folder;
//     also if that process is killed with SIGKILL, and if what it started is stopped
//     by [Server.Freeze]. supervise.go explains the supervisor that does this.
//  2. Start returns a server that replies, and it is the one just started, not
//     another one that happens to listen on the same port.
//  3. Freeze returns when every thread is stopped, Thaw when none is.
//  4. A proxy forwards bytes unchanged and in order, and matches each reply to its
//     request. A fault happens to exactly the request that it was armed for.
//  5. After Close of a proxy or a server none of their goroutines is left.
//  6. A server that is down keeps its port until Close: no other server or proxy of this
//     package, in any process, is given it.
//  7. A cluster, or what sentinels watch, is ready for a failover when its start returns: every
//     node knows all others, and every replica has the data of its primary.
//
// # Not guaranteed
//
// Works on Linux only: the state of a process is read from /proc.
//
// A supervisor that is itself killed with SIGKILL leaves its work to Close. If its parent
// is killed as well, the server stays.
//
// Sentinels and clusters do not speak TLS.
//
// A connection that sends CLIENT REPLY OFF or SKIP, or MONITOR, must not go through a
// proxy: replies can no longer be matched to requests. TLS cannot go through one.
//
// A proxy whose server is down accepts a connection and closes it at once; only
// [Proxy.Refuse] gives a client "connection refused".
//
// # Failure
//
// [Server.Do] reports errors, since an error reply is often what a test asks for. Every
// other method of Server, Proxy and Process that cannot do its work reports with Errorf
// to the test that started it, from any goroutine, and panics in a program without a test.
// What takes a test as its argument ends that test (Fatalf) and must be called from its
// goroutine: so do the methods of Sentinel and Cluster.
//
// # Locking
//
// Server.mu and Process.mu are held while processes are started, signalled and waited for,
// which takes the lock of a log after them. All other locks are leaves, and none is held
// while a caller's function is called: a hook may use the server, the proxy and the children
// freely, except that it must not wait for its own connection, as [Proxy.Close] does.
package redistest
