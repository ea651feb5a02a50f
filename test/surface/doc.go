// SPDX-License-Identifier: Apache-2.0

// Package surface has tests that read the exported names of all public packages from the source:
// each option with each kind of lock, and each method of each type with nil and zero values. A new
// name that no test covers fails.
package surface
