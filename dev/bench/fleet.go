// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// fleet is processes of the system that run worker. One goroutine uses it.
type fleet struct {
	impl, addr string
	members    []*member
	log        *fleetLog
}

// member is one process of a fleet. A goroutine of its own reads what it reports.
type member struct {
	process     *redistest.Process
	ready       chan struct{} // closed when the process has reported something
	ended       chan struct{} // closed when all that it has reported is in the log
	err         error         // set before ended is closed
	requestedAt time.Time     // the time at which the process requested the lock; fleetLog.mu guards it
}

func newFleet(impl implementation, addr string, n int) *fleet {
	return &fleet{impl: impl.name, addr: addr, members: make([]*member, n), log: newFleetLog()}
}

// start starts all processes, and returns when each has its client.
func (f *fleet) start() (err error) {
	for i := range f.members {
		if f.members[i], err = f.member(); err != nil {
			return err
		}
	}
	for _, m := range f.members {
		select {
		case <-m.ready:
		case <-m.ended:
			return m.failure("ended by itself")
		}
	}
	return nil
}

// member starts a process.
func (f *fleet) member() (*member, error) {
	process, err := redistest.StartChild(workerName, implVariable+"="+f.impl, addrVariable+"="+f.addr)
	if err != nil {
		return nil, err
	}
	m := &member{process: process, ready: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		m.err = f.log.read(m)
	}()
	return m, nil
}

// finish lets every process end the call that it is in. Those that still wait after patience are killed; it returns how
// many there were.
func (f *fleet) finish(patience time.Duration) (stuck int64, err error) {
	for _, m := range f.members {
		m.process.CloseInput()
	}
	late, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, m := range f.members {
		select {
		case <-m.ended:
			err = errors.Join(err, m.result())
		case <-late.Done():
			f.log.recordGivenUp(m)
			m.process.Kill()
			stuck++
		}
	}
	return stuck, err
}

// result returns how a process has ended that has ended by itself.
func (m *member) result() error {
	if code := m.process.Wait(reportPatience); code != 0 {
		return m.failure(fmt.Sprintf("exit code %d", code))
	}
	return m.err
}

func (m *member) failure(what string) error {
	return errors.Join(fmt.Errorf("process %d: %s: %s", m.process.PID(), what, m.process.Stderr()), m.err)
}

// close kills what is left.
func (f *fleet) close() {
	for _, m := range f.members {
		if m != nil {
			m.process.Close()
			<-m.ended
		}
	}
}
