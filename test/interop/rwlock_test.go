// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// ownersOf returns the fields of the holds in a read-write lock, in order.
func ownersOf(t *testing.T, server *redistest.Server, name string) []string {
	t.Helper()
	fields := hash(t, server, name)
	delete(fields, "mode")
	return slices.Sorted(maps.Keys(fields))
}

// P1: readers of both sides read together, and a writer of either waits for all of them. While they do, the server has what it has where all of
// them are Java's: the hash, and a key for each reader.
func TestAWriterWaitsForTheReadersOfBothSides(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		kind := sharedKinds()["rwlock"]
		all, others := kind.sides(t, p, "a", server), kind.sides(t, p, "b", server)
		for _, writer := range []string{"java writer", "go writer"} {
			for _, last := range []string{"java reader", "go reader"} {
				t.Run(writer+" behind "+last, func(t *testing.T) {
					first := map[string]string{"java reader": "go reader", "go reader": "java reader"}[last]
					took(t, all[first].take("x"))
					took(t, all[last].take("x"))
					took(t, others["go reader"].take("x"))
					owners := ownersOf(t, server, "x")
					require.Len(t, owners, 3)
					require.Equal(t, map[string]string{"mode": "read", owners[0]: "1", owners[1]: "1", owners[2]: "1"}, hash(t, server, "x"))
					requireKeys(t, server, "x", timeoutOf("x", owners[0], "1"), timeoutOf("x", owners[1], "1"), timeoutOf("x", owners[2], "1"))
					taken := all[writer].take("x")
					redistest.Await(t, "a waiter listens", func() bool { return locktest.Listeners(t, server, rwChannel("x")) >= 1 })
					for _, reader := range []side{all[first], others["go reader"], all[last]} {
						require.Empty(t, taken, "beside a reader")
						reader.release(t, "x")
					}
					took(t, taken)
					owners = ownersOf(t, server, "x")
					require.Len(t, owners, 1)
					require.True(t, strings.HasSuffix(owners[0], ":write"))
					requireKeys(t, server, "x")
					all[writer].release(t, "x")
					awaitNothing(t, server)
				})
			}
		}
	})
}
