// SPDX-License-Identifier: Apache-2.0

// Package failover takes servers away from under locks that are held, waited for and given back: in
// clusters, whose slots move and whose nodes die, and under sentinels.
//
// # What is tried
//
// Every scenario strikes all primitives at once, on servers of its own. Of each it is asked what stands in
// docs/guarantees.md: that no two who believe that they hold a lock overlap, but where writes can be lost, and
// that tokens tell the later one there; that leases which were lost are told; that waiters
// are woken by messages again when all is well; that errors name their cause; and that nothing stays which nobody has. A
// primitive joins by one line in package locktest.
//
// The clients are as signalbox.Tune makes them. Each test logs how long it took until renewals, grants and
// wake-ups went on: run it with -v. How long a failover takes is the servers' affair, here as short as it can be.
//
// # Not covered
//
// Networks that split: servers die or stop here, for everybody alike. Promises that take no failover are
// in packages topologies and faults.
package failover
