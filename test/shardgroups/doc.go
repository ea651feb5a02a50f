// SPDX-License-Identifier: Apache-2.0

// Package shardgroups tests the scripts of shard groups against a reference that solves small groups by brute force.
package shardgroups
