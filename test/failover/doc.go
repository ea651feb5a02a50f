// SPDX-License-Identifier: Apache-2.0

// Package failover removes servers while locks are held, waited for and released: in clusters, whose slots
// move and whose nodes die, and under sentinels.
//
// # What is tested
//
// Every scenario applies to all primitives at once, on servers of its own. Each checks the guarantees of
// docs/guarantees.md: that no two holders overlap, unless writes can be lost, and that tokens show the later
// one then; that lost leases are reported; that messages wake waiters again afterwards; that errors name
// their cause; and that nothing is left without an owner. A primitive joins by one line in package locktest.
//
// The clients are made as by signalbox.Tune. Each test logs how long it took until renewals, grants and
// wake-ups worked again: run it with -v. The servers decide how long a failover takes; here it is as short as
// possible.
//
// # Not covered
//
// Networks that split: servers die or stop here, for all clients alike. Packages topologies and faults test
// guarantees that need no failover.
package failover
