// SPDX-License-Identifier: Apache-2.0

package main

// NewRoot returns the command with all its subcommands, for tests that start it as a process.
var NewRoot = newRoot
