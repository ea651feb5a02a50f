// SPDX-License-Identifier: Apache-2.0

package errs

import (
	"strconv"
	"strings"
)

// maxQuoted is how many bytes of a name errors and logs have at most: the reason comes behind it.
const maxQuoted = 64

// Quote returns a name between quotes, without its end if it is long.
func Quote(name string) string {
	if len(name) <= 2*maxQuoted {
		return strconv.Quote(name)
	}
	return strconv.Quote(Shorten(name))
}

// Shorten returns a name without its end if it is long.
func Shorten(name string) string {
	if len(name) <= 2*maxQuoted {
		return name
	}
	return strings.ToValidUTF8(name[:maxQuoted], "") + "... (" + strconv.Itoa(len(name)) + " bytes)"
}
