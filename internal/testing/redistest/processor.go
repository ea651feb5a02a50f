// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"strings"
)

// Processor returns the name of the processor, as far as Linux reports it, else "". Figures name it.
func Processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for entry := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(entry, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
