// SPDX-License-Identifier: Apache-2.0

// Package demo has what the examples share: a server, and processes.
//
// [Main] runs a program on the server that SIGNALBOX_REDIS names, or on an embedded one in memory. A program of
// several processes uses [Processes] instead, and starts them by [Start].
package demo
