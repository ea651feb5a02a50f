// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyTestMain(m) }
