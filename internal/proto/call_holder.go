// SPDX-License-Identifier: Apache-2.0

package proto

// HolderForce is the call of holder/force.
type HolderForce struct{ ID, Verb, Channel, Forced, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c HolderForce) AppendTo(args []string) []string {
	return append(args, c.ID, c.Verb, c.Channel, c.Forced, c.KeepMS)
}
