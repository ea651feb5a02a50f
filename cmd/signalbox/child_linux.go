// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the program if this process dies, even by SIGKILL. Programs that
// it has started are not killed, and neither is a setuid program.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

func parentOf(pid int) (parent int, known bool) {
	p, err := readProcess(pid)
	return p.parent, err == nil
}

// process is a line of the list of processes.
type process struct {
	pid, parent, group int
	name               string
	state              byte
	threads            int
	began              string // the start time, since numbers are used again
}

// zombie reports whether it has ended, and was not waited for. The first thread of a process may have ended alone.
func (p process) zombie() bool { return p.state == 'X' || p.state == 'Z' && p.threads <= 1 }

// The fields of /proc/N/stat behind the name; see proc_pid_stat(5).
const (
	fieldState   = 0
	fieldParent  = 1
	fieldGroup   = 2
	fieldThreads = 17
	fieldBegan   = 19
)

// readProcess returns what /proc says of a process. Its name may have blanks and brackets.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	head, rest, _ := strings.Cut(string(text), "(")
	if _, failed := strconv.Atoi(strings.TrimSpace(head)); failed != nil {
		return process{}, errUnknownList
	}
	end := strings.LastIndexByte(rest, ')')
	fields := strings.Fields(rest[end+1:])
	if end < 0 || len(fields) <= fieldBegan {
		return process{}, errUnknownList
	}
	p := process{pid: pid, name: rest[:end], state: fields[fieldState][0], began: fields[fieldBegan]}
	for field, into := range map[int]*int{fieldParent: &p.parent, fieldGroup: &p.group, fieldThreads: &p.threads} {
		if *into, err = strconv.Atoi(fields[field]); err != nil {
			return process{}, errUnknownList
		}
	}
	return p, nil
}

var errUnknownList = errors.New("/proc is not as expected")

// processes returns all processes. It returns false if /proc is not there, or is that of another container, whose numbers
// mean other processes.
func processes() (map[int]process, bool) {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, false
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	names, err := folder.Readdirnames(-1)
	_ = folder.Close() // it was read alone
	if err != nil {
		return nil, false
	}
	all := make(map[int]process)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // else it has ended, or is hidden
			all[pid] = p
		}
	}
	return all, true
}

// processTree is the group of a program, and its descendants in other groups, as far as a chain of parents leads to them. A program that put itself into the background belongs to no chain.
type processTree struct {
	leader       int            // the number of the group, and of its first process
	outsideGroup map[int]string // the start times of the processes in other groups, by their numbers
}

// refresh reads the list of processes. It returns the running processes of the tree, and whether a zombie is left in the
// group. known is false if there is no list. It remembers the processes outside the group: their parents may end before the
// next refresh.
func (t *processTree) refresh() (running []process, zombies, known bool) {
	all, known := processes()
	if !known {
		return nil, false, false
	}
	for pid, began := range t.outsideGroup {
		if p, there := all[pid]; !there || p.began != began || p.zombie() {
			delete(t.outsideGroup, pid)
		}
	}
	for grown := true; grown; { // a child may come before its parent
		grown = false
		for pid, p := range all {
			if !t.has(p) && !p.zombie() && t.has(all[p.parent]) {
				t.outsideGroup[pid], grown = p.began, true
			}
		}
	}
	for _, p := range all {
		switch {
		case !t.has(p):
		case p.zombie():
			zombies = zombies || p.group == t.leader
		default:
			running = append(running, p)
		}
	}
	return running, zombies, true
}

// has reports whether a process is known to belong to the tree.
func (t *processTree) has(p process) bool {
	began, outside := t.outsideGroup[p.pid]
	return p.pid != 0 && (p.group == t.leader || outside && began == p.began)
}

// signalOutsideGroup sends a signal to the processes of other groups. A descriptor of a process names no other process that has its
// number later.
func (t *processTree) signalOutsideGroup(s syscall.Signal) {
	for pid, began := range t.outsideGroup {
		descriptor, failed := unix.PidfdOpen(pid, 0)
		if p, err := readProcess(pid); err == nil && p.began == began {
			if failed == nil {
				_ = unix.PidfdSendSignal(descriptor, s, nil, 0) // survivors says which may not be signalled
			} else {
				_ = syscall.Kill(pid, s) // an older kernel
			}
		}
		if failed == nil {
			_ = unix.Close(descriptor)
		}
	}
}
