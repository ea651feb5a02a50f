// SPDX-License-Identifier: Apache-2.0

// Package multilock asks of several locks as one what takes a cluster: that they are acquired, kept and released though a slot moves or
// a node dies between two members.
package multilock
