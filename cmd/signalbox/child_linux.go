// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// dieWithParent makes the kernel kill the program if this process dies, even by SIGKILL. Programs that
// it has started are not killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int, known bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	text := string(stat)
	_, err = fmt.Sscanf(text[strings.LastIndex(text, ")")+1:], " %c %d", new(rune), &parent) // behind the name, which may have blanks
	return parent, err == nil
}
