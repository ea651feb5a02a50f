// SPDX-License-Identifier: Apache-2.0

// Package scripts_test reads the Lua of package scripts as a compiler does: which names a text uses,
// and which it defines.
package scripts_test
