// SPDX-License-Identifier: Apache-2.0

// Package semaphore tests semaphore.Weighted beside the type of golang.org/x/sync whose methods it has: what the one promises the other
// keeps.
package semaphore
