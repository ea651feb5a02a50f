// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests mostly wait, for failovers and for channels to linger, so more of them than there
	// are processors have a use. Too many would be failovers of their own.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.ClusterRefresh), goleak.IgnoreAnyFunction(redistest.ClusterDelay))
}
