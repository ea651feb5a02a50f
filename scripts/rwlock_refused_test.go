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
	for name, before := range map[string]func(p *rwlock){
		"Free": func(*rwlock) {}, "Released": func(p *rwlock) { p.has(theirs, writes); p.leaves(theirs) }, "Shared": func(p *rwlock) { p.has(theirs, reads) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLockAt(t)
			before(p)
			floor := p.floor()
			user := p.as("+time", "+get", "+set", "+del", "+exists", "+zmscore", "+zscore", "+zrange", "+zcard", "+zadd", "+zrem")
			_, err := user.tryKeys(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, "0", "")...)
			requireDenied(t, err)
			require.GreaterOrEqual(t, p.floor(), floor)
			p.requireEnds()
		})
	}
}
