// SPDX-License-Identifier: Apache-2.0

package scripts

// Compose returns a text with the parts that it includes.
func Compose(source string) string { return compose(source) }
