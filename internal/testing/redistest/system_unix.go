// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest

import "syscall"

// The signals that stop and continue a process.
const sigStop, sigContinue = syscall.SIGSTOP, syscall.SIGCONT

func sendSignal(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }

// ownSession returns the attributes of a process with a session of its own.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// shutRead ends reading from a socket, and accepting on it.
func shutRead(fd uintptr) error { return syscall.Shutdown(int(fd), syscall.SHUT_RD) }
