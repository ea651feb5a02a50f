// SPDX-License-Identifier: Apache-2.0

// Package countdown tests the rounds of a latch on real servers: processes are killed, servers restart, and
// slots move. test/virtual makes each request fail of a round with faults of a wire.
package countdown
