// SPDX-License-Identifier: Apache-2.0

// Package migration runs each step of docs/migration.md with both versions of a service at once: none enters while another
// is inside.
package migration
