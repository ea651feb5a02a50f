// SPDX-License-Identifier: Apache-2.0

// Package wiretest makes replies of scripts without a server, for the tests of what reads them.
package wiretest
