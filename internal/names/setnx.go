// SPDX-License-Identifier: Apache-2.0

package names

import "fmt"

// SetNX is the naming of clients that write a lock by SET with NX: the key is the unchanged name, without a
// prefix. The channel is for the sessions of this library alone, so it has their prefix. Two names may share
// a channel, as "a" and "{a}" do, which costs a needless try.
//
// In a cluster key and channel of a name must be in one slot: a name with a closing brace that ends no hash
// tag is refused.
func SetNX(in NamingOptions, name string) (Set, error) {
	if err := check(name); err != nil {
		return Set{}, err
	}
	set := Set{Holder: name, Unlocked: in.Prefix + "{" + Tag(name) + "}" + unlockedSuffix}
	if in.Clustered && Tag(set.Holder) != Tag(set.Unlocked) {
		return Set{}, fmt.Errorf("the channel of %q would be in another slot of the cluster: its braces must be a hash tag, or there must be no braces", name)
	}
	return set, nil
}
