// SPDX-License-Identifier: Apache-2.0

// Package election tests what becomes of leaders, candidates and observers if processes are killed or stopped, servers
// restart, and in every topology. What a fault of a wire does to each request of a term is tested in test/virtual.
package election
