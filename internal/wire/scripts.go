// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/signalbox-go/signalbox/scripts"

// The scripts that connections are made and probed with. Those of locks are in package proto.
//
//nolint:gochecknoglobals // constants in all but name: read from the embedded files once
var (
	HelloScript      = scripts.Load("session/hello", 1)
	ProbeSlotsScript = scripts.Load("session/probe-slots", 1)
	RewriteScript    = scripts.Load("session/rewrite", 1)
)
