// SPDX-License-Identifier: Apache-2.0

// Package dialtest compares what two clients write when they connect with the same settings. Pairs returns few combinations of
// settings in which every two of them meet, and a Server records what it is sent.
package dialtest
