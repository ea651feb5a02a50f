// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func newRun(s *server) *cobra.Command {
	return &cobra.Command{Use: "run", GroupID: groupLock, Short: "Hold a lock while a program runs"}
}
