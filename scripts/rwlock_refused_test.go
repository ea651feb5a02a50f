// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P4, P10: a caller without the right to give a key an end leaves no key without one.
func TestADeniedEndLeavesNoHoldOfAReadWriteLockWithoutOne(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(r *rwlock){
		"Free": func(*rwlock) {}, "Released": func(r *rwlock) { r.has(theirs, writes); r.leaves(theirs) }, "Shared": func(r *rwlock) { r.has(theirs, reads) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLockAt(t)
			before(r)
			floor := r.floor()
			user := r.as("+time", "+get", "+set", "+del", "+exists", "+zmscore", "+zscore", "+zrange", "+zcard", "+zadd", "+zrem")
			_, err := user.tryKeys(scripts.RWLockEnter, r.keys(), r.enterArgs(ours, reads, "0", "")...)
			requireDenied(t, err)
			require.GreaterOrEqual(t, r.floor(), floor)
			r.requireEnds()
		})
	}
}
