// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func newWait(s *server) *cobra.Command {
	return &cobra.Command{Use: "wait", GroupID: groupLock, Short: "Wait until no process holds a lock"}
}
