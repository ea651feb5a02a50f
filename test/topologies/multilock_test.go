// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
)

// P1: members of several locks as one are acquired and released, also on different nodes of a cluster, by two that ask in
// opposite orders.
func TestMembersOfAMultilockAreHeldTogether(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(f *fixture) {
		name, sessions := f.name(), []int{0, 1}
		all := make([][]multilock.Member, len(sessions))
		for i := range sessions {
			s := f.session()
			for n := range 6 {
				all[i] = append(all[i], f.kind.New(s, fmt.Sprint(name, " ", n)).(multilock.Member))
			}
		}
		slices.Reverse(all[1])
		locktest.Together(f, len(sessions), func(i int) error {
			for range 3 {
				lease, err := multilock.New(all[i]...).Lock(locktest.Context(f))
				if err != nil {
					return err
				}
				if _, err = all[1-i][0].TryLock(locktest.Context(f)); !errors.Is(err, signalbox.ErrHeld) {
					return fmt.Errorf("a member is not held: %w", err)
				}
				if err = lease.Unlock(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
