// SPDX-License-Identifier: Apache-2.0

// Package multilock asks of several locks as one what takes processes of their own, or a cluster: that overlapping
// sets never wait for each other for good, exclude each other, and leave nothing, even if a node dies between
// two members.
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package multilock
