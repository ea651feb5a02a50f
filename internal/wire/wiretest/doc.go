// SPDX-License-Identifier: Apache-2.0

// Package wiretest makes replies of scripts without a server, for the tests of what reads them, and makes scripts known to
// a server, for the tests of what sends them.
package wiretest
