// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// server is shared by all walks, each of which has keys of its own.
var server *redistest.Server

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { server = s }))
}

const (
	// noon is the stamp at which every walk begins, in 2026.
	noon int64 = 1_780_000_000_000_000
	// second is in the unit of stamps.
	second int64 = 1_000_000
	// label is what holds say of their session.
	label = "höst:42"
	// unmarked is in a hold whose release no session waits for.
	unmarked = "----------------------"
)

// The sides of a read-write lock.
const reads, writes = "r", "w"

// digits is a stamp as it travels.
func digits(stamp int64) string { return fmt.Sprintf("%016d", stamp) }

// sessionOf returns the n-th session.
func sessionOf(n int) string { return strings.Repeat(string(rune('a'+n)), 22) }

// heartbeatNumber is that of the n-th heartbeat.
func heartbeatNumber(n int) string { return fmt.Sprintf("%012drandom-%d", n, n%10) }

// stampOf reads the digits of a stamp.
func stampOf(text string) int64 {
	stamp, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return stamp
}
