// SPDX-License-Identifier: Apache-2.0

// Package election tests leaders, candidates and observers on real servers: processes are killed or
// stopped, and servers restart, in every topology. test/virtual makes each request fail of a term with faults
// of a wire.
package election
