// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func newBreak(s *server) *cobra.Command {
	return &cobra.Command{Use: "break", GroupID: groupLock, Short: "End the hold of whatever holds a lock"}
}
