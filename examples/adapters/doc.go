// SPDX-License-Identifier: Apache-2.0

// Package adapters has locks of signalbox behind interfaces that others define: goose, certmagic, client-go and tusd. They
// are to be copied.
package adapters
