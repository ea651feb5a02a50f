// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"

	"github.com/redis/rueidis"
)

// TryAgain reports whether a script was refused because its keys are spread over two nodes: their slot is
// being moved. A script with one key still works meanwhile.
func TryAgain(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && begins(refusal.Error(), []string{"TRYAGAIN"})
}
