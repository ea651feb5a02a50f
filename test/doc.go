// SPDX-License-Identifier: Apache-2.0

// Package test is the root of the suites that need more than the package beside them: real
// servers with faults in between, virtual time from the lock to an embedded server, and long
// sweeps. It is a module of its own, so that what the suites need stays out of the library's.
package test
