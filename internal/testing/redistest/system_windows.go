// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"syscall"
)

// Windows has no signals, and no server to test with. The package compiles there, so that the tests of the library do;
// what needs a process fails.
const sigStop, sigContinue = syscall.Signal(19), syscall.Signal(18)

func sendSignal(int, syscall.Signal) error { return errors.ErrUnsupported }

func ownSession() *syscall.SysProcAttr { return nil }

func shutRead(fd uintptr) error { return syscall.Shutdown(syscall.Handle(fd), syscall.SHUT_RD) }
