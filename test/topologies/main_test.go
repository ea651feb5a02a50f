// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// patience is how long no server may be seen before the others take it for dead. No test
// here wants that, and no machine is as busy.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithParallelism(12, testsWithTopologies{m}))
}

// testsWithTopologies runs the tests while the shared topologies run.
type testsWithTopologies struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (tw testsWithTopologies) Run() int {
	defer func() {
		for _, s := range shared {
			s.close()
		}
	}()
	return tw.tests.Run()
}

// shared are all topologies, none of them started yet.
var shared = func() []*sharedTopology {
	var all []*sharedTopology
	for _, s := range redistest.Topologies() {
		all = append(all, &sharedTopology{Starter: s})
	}
	return all
}()

// sharedTopology is a topology that is started when a test first asks for it, and runs until the last
// test has ended.
type sharedTopology struct {
	redistest.Starter

	once    sync.Once
	started redistest.Topology
	err     error
}

func (s *sharedTopology) get() (redistest.Topology, error) {
	s.once.Do(func() {
		// DUMP has to return hold ids uncompressed; see fixture.knows.
		s.started, s.err = s.Start(redistest.WithFailoverAfter(patience), redistest.WithArgs("--rdbcompression", "no"))
	})
	return s.started, s.err
}

func (s *sharedTopology) close() {
	if s.started != nil {
		s.started.Close()
	}
}
