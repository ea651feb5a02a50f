// SPDX-License-Identifier: Apache-2.0

package setnx

import "github.com/signalbox-go/signalbox/scripts"

// The scripts in use.
//
//nolint:gochecknoglobals // constants in all but name
var (
	acquireScript  = scripts.Load("setnx/acquire", 1)
	releaseScript  = scripts.Load("setnx/release", 1)
	pollScript     = scripts.Load("setnx/poll", 1)
	renewScript    = scripts.Load("setnx/renew", 1)
	describeScript = scripts.Load("setnx/describe", 1)
	forceScript    = scripts.Load("setnx/force", 1)
)
