// SPDX-License-Identifier: Apache-2.0

package locktest

// PanicOf returns the error that a function panics with, nil if it does not panic.
func PanicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}
