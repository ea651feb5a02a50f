// SPDX-License-Identifier: Apache-2.0

// Package shardmembers tests package shards in processes that are killed and stopped, and on every topology. Its code is all in the
// tests.
package shardmembers
