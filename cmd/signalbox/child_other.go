// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system has no such signal. The program outlives a SIGKILL of this
// process, without a lock when the lease has expired.
func dieWithParent(*syscall.SysProcAttr) {}

func parentOf(int) (parent int, known bool) { return 0, false }

// process is a line of the list of processes, which is not read here.
type process struct {
	pid   int
	name  string
	state byte
}

type processTree struct {
	leader       int
	outsideGroup map[int]string
}

func (*processTree) refresh() (running []process, zombies, known bool) { return nil, false, false }

func (*processTree) signalOutsideGroup(syscall.Signal) {}
