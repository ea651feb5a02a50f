// SPDX-License-Identifier: Apache-2.0

// Package rights runs with exactly the rights of docs/security.md, and then with each of them taken away.
// It also tests what the page says that others can do.
//
// # What is tested
//
// Locks of every kind: locking, trying, waiting and waking, renewing, entering again, listing holders and
// waiters, forcing, waiting for replicas, unlocking and closing. A kind joins by one line in kind_test.go.
//
// On one server, behind sentinels and in a cluster, before and after a failover, the servers' own logs show
// no denied command. Then one of the rights of one server is missing, or one that only a cluster needs. A
// call returns ErrDenied, or continues without what the right is for. No key is left half written, held, or
// without an end. All errors and logs are searched for passwords and hold ids.
//
// # Not covered
//
// What a client does that Tune was not applied to, and the lack of each right of the sentinels' own user.
package rights
