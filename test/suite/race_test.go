// SPDX-License-Identifier: Apache-2.0

//go:build race

package suite_test

func init() { underRace = true }
