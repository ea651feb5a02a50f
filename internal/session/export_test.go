// SPDX-License-Identifier: Apache-2.0

package session

// ListenAfter is for the tests.
const ListenAfter = listenAfter
