// SPDX-License-Identifier: Apache-2.0

package errs

import "fmt"

// These are ErrLost, with the reason.
var (
	ErrLostLate  = fmt.Errorf("%w: it was not renewed in time", ErrLost)
	ErrLostFixed = fmt.Errorf("%w: the time of its fixed lease is over", ErrLost)
	ErrLostGone  = fmt.Errorf("%w: the server no longer has it; it was ended by force, deleted or evicted", ErrLost)
)
