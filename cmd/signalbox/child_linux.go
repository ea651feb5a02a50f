// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithParent makes the kernel kill the program if this process dies, even by SIGKILL. Programs that
// it has started are not killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
