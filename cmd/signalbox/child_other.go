// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system has no such signal. The program outlives a SIGKILL of this
// process, without a lock when the lease has expired.
func dieWithParent(*syscall.SysProcAttr) {}

// parentOf returns the parent of a process.
func parentOf(int) (parent int, known bool) { return 0, false }
