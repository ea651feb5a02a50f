// SPDX-License-Identifier: Apache-2.0

// Package signalboxtest tests code that uses signalbox: with a server in memory, or without a server.
//
// Use it in tests alone. For a program without a server use package memory below it.
//
//	func TestShipStopsWhenTheLockIsLost(t *testing.T) {
//		kit := signalboxtest.New(t)
//		shop := NewShop(kit.Session())
//		shop.Pack = func(ctx context.Context, order string) error {
//			kit.Lose("order/42") // in the middle of the work
//			<-ctx.Done()         // it ends with the lease
//			return context.Cause(ctx)
//		}
//		require.ErrorIs(t, shop.Ship(t.Context(), "42"), signalbox.ErrLost)
//	}
//
// A Kit runs the library's own scripts on an embedded server, so every kind of lock works on it. A
// redlock needs three Kits, since a Kit is one server. A Kit needs no network and works inside a
// bubble of testing/synctest, where an hour takes a tenth of a second. Each call of Kit.Session opens a further
// session, which is another process to the locks. A Fake is a lock without a
// server. Its leases have tokens and contexts, and end by Unlock and by Lose.
//
// # What to call
//
//	another process has the lock              Kit.Hold, Fake.Hold
//	the lock is lost, its holder is notified  Kit.Lose, Fake.Lose
//	the lock is lost, its holder is not       Kit.Expire
//	a session is cut off                      Kit.Partition, Kit.Heal
//	a session stands still                    Kit.Pause, Kit.Resume
//	a member of a group of shards dies        Kit.Partition; it is stopped: Kit.Pause
//	members lose their shards, by force       inspect.Break
//	the server is away                        Kit.Stop, Kit.Start
//	the server loses its data in a Stop       New(t, LoseData())
//	time passes                               Kit.Advance, in a bubble
//	a lock in another layout, such as SET NX  Kit.In
//	a lock returns an error                   Fake.Fail
//	an assertion                              Kit.IsHeld, Kit.HeldBy, Fake.IsHeld
//
// # Guarantees
//
//  1. Nothing remains: when the test ends, sessions, clients and the server are closed, and no
//     goroutine is left.
//  2. A waiter gets a released lock at once, without a poll. In a bubble the clock does not move meanwhile.
//  3. Tokens rise, also after Lose and Expire. With Kit.In they rise only if time passes between
//     two grants.
//  4. Lose and Expire of a name that is not in use fail the test. The message lists the names that are
//     held (not with Kit.In).
//  5. Every call works the same inside a bubble and outside. Only Advance needs a bubble.
//
// # In a bubble
//
// Call New first, with the bubble's t. A bubble begins in the year 2000; tokens count from 2025, so
// New moves the bubble's clock to 2026. The server's clock is the bubble's.
//
// # Not promised
//
//   - What an embedded server cannot show: failover, replicas, clusters, rights, eviction. Run the
//     tests that need them on a real server.
//   - A Kit for signalbox.Dial: a Kit has no address. Pass the session to the code under test.
//   - That a Pause stops the code under test: it stops the session. Call Pause, Advance and Resume in the middle of the
//     work that is to stand still.
//   - Lose and Expire of permits and latches in layouts of others.
//   - A Fake of every kind. A Fake excludes its own callers, one at a time, and no others.
//
// # Cost
//
// A Kit with a session takes about half a millisecond, a call that runs a script as much, a Lock and
// an Unlock of a Fake a microsecond.
//
// docs/how-to/testing.md has a service with its tests.
package signalboxtest
