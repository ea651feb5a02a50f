// SPDX-License-Identifier: Apache-2.0

package wire

// Code is the first element of most replies: what became of the call. The scripts of one kind may have further codes, which
// are constants of its package. scripts/README.md has all of them.
type Code int64

// The codes that mean the same in all scripts.
const (
	// Done: the call did what it is for.
	Done Code = 1
	// Undone: the lock is another's, or what the call is for is not there.
	Undone Code = 0
	// Late: it came after its not-after, and did nothing.
	Late Code = -1
	// Foreign: the name belongs to another kind of lock, or the key to another program. The kind is the next element.
	Foreign Code = -2
)

// Code returns the code of the reply.
func (r *Reply) Code() Code { return Code(r.Int(0)) }
