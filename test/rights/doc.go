// SPDX-License-Identifier: Apache-2.0

// Package rights works under the rights of docs/security.md, exactly, and then with each of them taken away, and
// does what the page says that others can do.
//
// # What is tried
//
// Locks of every kind: locking, trying, waiting and being woken, renewing, entering again, asking who holds and who
// waits, taking by force, waiting for replicas, unlocking and closing. A kind joins by one line in kind_test.go.
//
// On one server, behind sentinels and in a cluster, before and after a failover, nothing is denied, by the
// servers' own logs. Without one of the rights of one server, or of those that only a cluster asks for, a call is
// ErrDenied, or goes on without what the right is for; nothing stays half written, held, or without an end. Everything
// that callers and logs are told is searched for passwords and hold ids.
//
// # Not covered
//
// What a client does that is not tuned, and each right of the sentinels' own user taken away.
package rights
