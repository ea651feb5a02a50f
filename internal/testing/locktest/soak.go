// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// SoakEnv names the environment variable that sets how long each long test runs: "10m". If it is not set,
// long tests are skipped.
const SoakEnv = "SIGNALBOX_SOAK"

// Soak skips the test unless long tests are asked for, and returns a function that reports
// whether there is time for another round. The first round always runs.
func Soak(tb testing.TB) (more func() bool) {
	tb.Helper()
	text := os.Getenv(SoakEnv)
	if text == "" {
		tb.Skipf("a long test: set %s to a time, such as 10m", SoakEnv)
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		tb.Fatalf("%s: %v", SoakEnv, err)
	}
	ends, first := time.Now().Add(length), true
	return func() bool {
		again := first || time.Now().Before(ends)
		first = false
		return again && !tb.Failed()
	}
}

// SeedEnv names the environment variable that has the first seed of tests that draw what happens. Without it they draw that, too.
const SeedEnv = "SIGNALBOX_SEED"

// Seed returns the seed of SeedEnv, or one that is drawn.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	text := os.Getenv(SeedEnv)
	if text == "" {
		return rand.Uint64() >> 32
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", SeedEnv, err)
	}
	return seed
}

// RunsScript matches the requests that run one of the scripts, by digest or by text.
func RunsScript(these ...*scripts.Script) redistest.Match {
	return func(req []string) bool {
		if len(req) < 2 {
			return false
		}
		for _, s := range these {
			if strings.EqualFold(req[0], "EVALSHA") && req[1] == s.SHA1 || strings.EqualFold(req[0], "EVAL") && req[1] == s.Source {
				return true
			}
		}
		return false
	}
}

// scriptsByText has every script by its digest and by its text. To compose them all takes longer than most requests.
//
//nolint:gochecknoglobals // made once, and only read
var scriptsByText = sync.OnceValue(func() map[string]*scripts.Script {
	all, err := scripts.All()
	if err != nil {
		panic(err) // they are embedded
	}
	byText := make(map[string]*scripts.Script)
	for _, s := range all {
		byText[s.SHA1], byText[s.Source] = s, s
	}
	return byText
})

// Script returns the script that a request runs, nil if it runs none.
func Script(req []string) *scripts.Script {
	if len(req) < 2 || !strings.EqualFold(req[0], "EVALSHA") && !strings.EqualFold(req[0], "EVAL") {
		return nil
	}
	return scriptsByText()[req[1]]
}

// CommandName returns which script a request runs, or else its command.
func CommandName(req []string) string {
	if s := Script(req); s != nil {
		return s.Name
	}
	return strings.ToUpper(req[0])
}
