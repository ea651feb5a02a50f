// SPDX-License-Identifier: Apache-2.0

// Package walks has no code of its own. Its tests take random walks over all scripts on a real
// server: sessions acquire, wait, renew and release, calls are repeated and delayed, keys are lost,
// and the server's clock is set. After each step every script must be able to read what the others
// wrote. At the end of each walk the lock must be usable again.
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package walks
