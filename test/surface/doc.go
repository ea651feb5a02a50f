// SPDX-License-Identifier: Apache-2.0

// Package surface has tests that read the exported names of all public packages from the source, so that
// a new name without a test of its own fails: each option with each kind of lock, and each method of each
// type with nothing in it.
package surface
