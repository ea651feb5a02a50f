// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
)

// P9: whatever was asked before, a name has the keys that it has without a Cache. Some names are what others are encoded as, or
// hashed to, and there are more than the Cache has slots.
func TestCachedKeysAreThoseOfTheName(t *testing.T) {
	t.Parallel()
	all := []string{"a", "{a}", "%7Ba%7D", "a}:lock", "%", "%25", "%2525", "", names.Hash("a"), "größer", "\xff", strings.Repeat("x", names.MaxBytes+1)}
	for i := range 2000 {
		all = append(all, strconv.Itoa(i))
	}
	options := []names.NamingOptions{{Prefix: "sb:"}, {Prefix: ""}, {Prefix: "sb:", Hashed: true}}
	c := names.NewCache()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for _, name := range all {
				for range 2 {
					for _, in := range options {
						want, wantErr := names.Native(in, name)
						set, err := c.Native(in, name)
						if set != want || (err == nil) != (wantErr == nil) {
							t.Errorf("%q: %v, %v", name, set, err)
						}
					}
				}
			}
		})
	}
	running.Wait()
}

// P7: the keys of a name that was asked before take no memory.
func TestCachedKeys_NoAllocation(t *testing.T) {
	c, in := names.NewCache(), names.NamingOptions{Prefix: names.DefaultPrefix}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Native(in, "order/42") }))
}
