// SPDX-License-Identifier: Apache-2.0

package hold

// Owner returns the primitive that the hold of l came from, nil for the zero Lease.
func (l Lease) Owner() Owner {
	if l.hold == nil {
		return nil
	}
	return l.hold.owner
}
